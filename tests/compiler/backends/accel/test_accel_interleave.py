"""Planes that layers write between each other's elements, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.accel.isa import Store
from codesign.accel.presets import preset
from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.partition.assign import assign
from codesign.ir.relay.expr import Call, Expr, OpRef, Tuple
from codesign.ops.axis import AxisAttrs
from codesign.ops.transpose import TransposeAttrs
from codesign.sim.cycle import program_cycles
from tests.support.regions import CONFIGS, Maker, assert_same, kernel_of


def _interleaved(
    maker: Maker, parts: tuple[Expr, ...], shape: tuple[int, int, int, int], step: tuple[int, int]
) -> Call:
    n, c, h, w = shape
    joined = Call(OpRef("concatenate"), (Tuple(parts),), AxisAttrs(axis=1))
    apart = maker.reshape(joined, (n, *step, c, h, w))
    turned = Call(OpRef("transpose"), (apart,), TransposeAttrs(axes=(0, 3, 4, 1, 5, 2)))
    return maker.reshape(turned, (n, c, h * step[0], w * step[1]))


def _parts(
    maker: Maker, x: Expr, weight: tuple[int, int, int, int], step: tuple[int, int]
) -> tuple[Expr, ...]:
    padding = (weight[2] // 2,) * 4
    return tuple(
        _with_zero_point(maker.conv(x, weight, padding=padding)) for _ in range(step[0] * step[1])
    )


def _with_zero_point(requantized: Call) -> Call:
    """Return a layer that reads its data as all others do: one tensor has one zero point."""
    layer, *scaling = requantized.args
    read = replace(layer, attrs=replace(layer.attrs, zero_point=-7))
    return replace(requantized, args=(read, *scaling))


@pytest.mark.parametrize("name", ["tiny", "base", "batch4", "one-bank", "small", "unequal"])
@pytest.mark.parametrize(("step", "samples"), [((2, 2), 1), ((3, 1), 5), ((1, 2), 2)])
def test_layers_write_between_each_other(name: str, step: tuple[int, int], samples: int) -> None:
    rng = np.random.default_rng(step[0] + 7 * samples)
    maker = Maker(rng)
    x = maker.var((samples, 6, 5, 4))
    parts = _parts(maker, x, (9, 6, 3, 3), step)
    whole = _interleaved(maker, parts, (samples, 9, 5, 4), step)
    assert_same((x,), whole, CONFIGS[name], rng)


def test_what_is_interleaved_is_read_by_layers_as_it_lies() -> None:
    rng = np.random.default_rng(4)
    maker = Maker(rng)
    x = maker.var((1, 20, 6, 6))
    planes = _interleaved(maker, _parts(maker, x, (20, 20, 1, 1), (2, 2)), (1, 20, 6, 6), (2, 2))
    again = _interleaved(
        maker, _parts(maker, planes, (8, 20, 3, 3), (2, 2)), (1, 8, 12, 12), (2, 2)
    )
    body = Tuple((maker.lookup(again), planes))
    assert_same((x,), body, preset("tiny"), rng, tuning=Tuning(program_cycles))
    kernel = kernel_of((x,), body, preset("tiny"))
    assert [layer.operator for layer in kernel.layers] == ["qnn.conv2d"] * 8 + ["qnn.lookup"]
    assert any(isinstance(each, Store) for each in kernel.program.instructions)


def test_parts_that_something_else_reads_are_interleaved_on_the_host() -> None:
    maker = Maker(np.random.default_rng(5))
    x = maker.var((1, 8, 4, 4))
    parts = _parts(maker, x, (8, 8, 1, 1), (2, 2))
    results = (_interleaved(maker, parts, (1, 8, 4, 4), (2, 2)), parts[0])
    assignment = assign(results, infer_expression(Tuple(results)), preset("tiny"))
    units = [assignment.units[call] for call in (parts[0], results[0])]
    assert units == ["gemm", "host"]
