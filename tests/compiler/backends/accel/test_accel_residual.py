"""A convolution takes the sum with a residual along: same bits as NumPy's two steps, one layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.ir.relay.expr import Call, Expr, Tuple, Var
from tests.support.regions import CONFIGS, Maker, assert_same, kernel_of


def _block(maker: Maker, *, swapped: bool) -> tuple[Var, Call]:
    x = maker.var((3, 20, 5, 6))
    start = maker.conv(x, (24, 20, 1, 1))
    result = maker.conv(start, (24, 24, 2, 2), padding=(1, 1, 0, 0))
    return x, maker.add(start, result) if swapped else maker.add(result, start)


def _operators(x: Var, body: Expr, config: str) -> list[str]:
    return [layer.operator for layer in kernel_of((x,), body, CONFIGS[config]).layers]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("config", [name for name in CONFIGS if name != "minute"])
def test_residual_equals_numpy(config: str, swapped: bool) -> None:
    rng = np.random.default_rng(sum(map(ord, config)) + swapped)
    x, body = _block(Maker(rng), swapped=swapped)
    assert_same((x,), body, CONFIGS[config], rng)
    assert_same((x,), Maker(rng).lookup(body), CONFIGS[config], rng)


def test_the_sum_is_no_layer_of_its_own() -> None:
    x, body = _block(Maker(np.random.default_rng(1)), swapped=False)
    assert _operators(x, body, "base") == ["qnn.conv2d", "qnn.conv2d"]


def test_of_two_convolutions_the_larger_takes_the_sum() -> None:
    rng = np.random.default_rng(2)
    maker = Maker(rng)
    x = maker.var((1, 16, 6, 6))
    small = maker.conv(x, (16, 16, 1, 1))
    large = maker.conv(x, (16, 16, 3, 3), padding=(1, 1, 1, 1))
    body = maker.add(small, large)
    layers = kernel_of((x,), body, CONFIGS["base"]).layers
    assert [layer.macs for layer in layers] == [36 * 256, 36 * 9 * 256]
    assert_same((x,), body, CONFIGS["base"], rng)


def test_a_result_with_another_reader_is_added_apart() -> None:
    rng = np.random.default_rng(3)
    x, body = _block(Maker(rng), swapped=False)
    both = Tuple((body, body.args[0]))
    kernel = kernel_of((x,), both, CONFIGS["base"])
    assert [layer.operator for layer in kernel.layers] == ["qnn.conv2d", "qnn.conv2d", "qnn.add"]
    assert_same((x,), both, CONFIGS["base"], rng)


def test_without_multiplier_the_convolution_stays_on_the_array() -> None:
    rng = np.random.default_rng(4)
    x, body = _block(Maker(rng), swapped=False)
    config = replace(CONFIGS["base"], has_multiplier=False)
    kernel = kernel_of((x,), body.args[0], config)
    assert [layer.unit for layer in kernel.layers] == ["gemm", "gemm"]


def test_every_limit_of_the_inner_result_holds() -> None:
    """Sums that saturate in the inner step differ from one rounding without it."""
    rng = np.random.default_rng(5)
    maker = Maker(rng)
    x = maker.var((1, 16, 4, 4))
    inner = maker.conv(x, (16, 16, 1, 1))
    attrs = replace(inner.attrs, minimum=-3, maximum=2, zero_point=0)
    tight = replace(inner, attrs=attrs)
    assert_same((x,), maker.add(tight, maker.conv(x, (16, 16, 1, 1))), CONFIGS["base"], rng)
