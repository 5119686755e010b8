"""Concatenation by placement: layers write their channels where the joined tensor lies."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.partition.assign import assign
from codesign.ir.relay.expr import Call, Expr, OpRef, Tuple, Var
from codesign.ops.axis import AxisAttrs
from codesign.ops.transpose import TransposeAttrs
from tests.support.regions import CONFIGS, Maker, assert_same, kernel_of, meaning, run_parts


def _join(*parts: Expr, axis: int = 1) -> Call:
    return Call(OpRef("concatenate"), (Tuple(parts),), AxisAttrs(axis=axis))


def _inception(maker: Maker, samples: int) -> tuple[Var, Call]:
    """Three branches of 16, 32 and 7 channels, joined and read again."""
    x = maker.var((samples, 16, 7, 6))
    left = maker.conv(x, (16, 16, 1, 1))
    middle = maker.conv(x, (32, 16, 3, 3), padding=(1, 1, 1, 1))
    right = maker.conv(maker.max_pool(x, pool_size=(3, 3), padding=(1, 1, 1, 1)), (7, 16, 1, 1))
    return x, _join(left, middle, right)


@pytest.mark.parametrize("config", ["tiny", "edge", "base", "batch4", "batch16", "one", "one-bank"])
def test_joined_tensor_equals_numpy(config: str) -> None:
    rng = np.random.default_rng(sum(map(ord, config)))
    machine = CONFIGS[config]
    maker = Maker(rng)
    x, joined = _inception(maker, machine.batch)
    body = maker.conv(joined, (20, 55, 3, 3), padding=(1, 1, 1, 1))
    assert_same((x,), body, machine, rng)
    pooled = maker.max_pool(joined, pool_size=(2, 2), strides=(2, 2))
    assert_same((x,), Tuple((joined, pooled, maker.lookup(joined))), machine, rng)


def test_a_join_moves_nothing() -> None:
    x, joined = _inception(Maker(np.random.default_rng(1)), 1)
    kernel = kernel_of((x,), joined, CONFIGS["base"])
    operators = [layer.operator for layer in kernel.layers]
    assert operators == ["qnn.conv2d", "qnn.conv2d", "nn.max_pool2d", "qnn.conv2d"]
    written = sum(layer.bytes_written for layer in kernel.layers)
    assert written == (1 + 2 + 1 + 1) * 16 * 42  # tiles of 16 bytes, the pool's result included


def test_a_part_that_is_read_besides() -> None:
    rng = np.random.default_rng(2)
    maker = Maker(rng)
    x = maker.var((1, 16, 5, 5))
    left = maker.conv(x, (32, 16, 1, 1))
    right = maker.conv(left, (32, 1, 3, 3), groups=32, padding=(1, 1, 1, 1))
    body = maker.add(maker.conv(_join(left, right), (32, 64, 1, 1)), left)
    assert_same((x,), body, CONFIGS["base"], rng)


def _reason(body: Call, config: str) -> str | None:
    types = infer_expression(Tuple((body,)))
    return assign((body,), types, CONFIGS[config]).reasons.get(body)


def test_reasons_name_what_is_in_the_way() -> None:
    maker = Maker(np.random.default_rng(3))
    x, joined = _inception(maker, 1)
    assert _reason(joined, "base") is None
    assert "ends within a tile of 64" in (_reason(joined, "block64") or "")
    assert "block_in is not block_out" in (_reason(joined, "unequal") or "")
    y = maker.conv(x, (16, 16, 1, 1))
    assert "axis 2" in (_reason(_join(y, maker.conv(x, (16, 16, 1, 1)), axis=2), "base") or "")
    assert "stands twice" in (_reason(_join(y, y), "base") or "")
    assert "not what a layer" in (_reason(_join(y, x), "base") or "")
    _, several = _inception(maker, 5)
    assert "5 samples in tiles of 4" in (_reason(several, "batch4") or "")


def _parts_equal(x: Var, body: Expr, config: str, rng: np.random.Generator) -> None:
    data = rng.integers(-128, 128, x.annotation.shape).astype(np.int8)
    (found,) = run_parts((body,), {x: data}, CONFIGS[config])
    np.testing.assert_array_equal(found, meaning((body,), {x: data})[0])


@pytest.mark.parametrize("config", ["unequal", "block64", "base"])
def test_a_join_on_the_host_equals_numpy(config: str) -> None:
    rng = np.random.default_rng(4)
    maker = Maker(rng)
    x, joined = _inception(maker, 2)
    _parts_equal(x, maker.conv(joined, (20, 55, 1, 1)), config, rng)


def test_a_part_that_an_earlier_step_has_written() -> None:
    """The host turns the second branch: the first is packed into its place by the runtime."""
    rng = np.random.default_rng(5)
    maker = Maker(rng)
    x = maker.var((1, 16, 6, 6))
    left = maker.conv(x, (16, 16, 1, 1))
    turned = Call(OpRef("transpose"), (left,), TransposeAttrs(axes=(0, 1, 3, 2)))
    right = maker.conv(turned, (16, 16, 1, 1))
    joined = _join(left, right)
    assert _reason(joined, "base") is None
    _parts_equal(x, maker.conv(joined, (24, 32, 3, 3), padding=(1, 1, 1, 1)), "base", rng)
