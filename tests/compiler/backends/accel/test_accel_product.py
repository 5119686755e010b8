"""Products of two tensors on the array are NumPy's, bit for bit, or are left to the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.partition.assign import assign
from codesign.compiler.partition.split import split
from codesign.ir.executable.matrices import Below, Beside
from codesign.ir.relay.expr import Call, Expr
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.sim.cycle import program_cycles
from tests.support.regions import CONFIGS, Maker, assert_same, kernel_of, meaning, run_parts

STACKS = ((), (3,), (2, 2))


@pytest.mark.parametrize("stack", STACKS, ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_product_is_numpys_on_every_configuration(name: str, stack: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(stack))
    rows, inner, columns = (int(each) for each in rng.integers(1, 40, 3))
    maker = Maker(rng)
    lhs, rhs = maker.var((*stack, rows, inner)), maker.var((*stack, inner, columns), "y")
    body = maker.matmul(lhs, rhs, inner, columns, len(stack) + 2)
    assert_same((lhs, rhs), body, CONFIGS[name], rng, tuning=Tuning(program_cycles))


def test_a_matrix_times_itself_lies_in_both_layouts() -> None:
    rng = np.random.default_rng(5)
    maker = Maker(rng)
    x = maker.var((2, 21, 21))
    body = maker.lookup(maker.matmul(x, x, 21, 21, 3))
    assert_same((x,), body, CONFIGS["batch4"], rng)


def test_layers_around_a_product_are_steps_of_their_own() -> None:
    rng = np.random.default_rng(6)
    maker, config = Maker(rng), preset("base")
    x, y = maker.var((24, 16)), maker.var((32, 24), "y")
    before = maker.dense(x, (32, 16))
    product = maker.matmul(before, y, 32, 24, 2)
    after = maker.dense(product, (8, 24))
    shapes = {x: (24, 16), y: (32, 24)}
    values = {
        each: rng.integers(-128, 128, shape).astype(np.int8) for each, shape in shapes.items()
    }
    (want,), (found,) = meaning((after,), values), run_parts((after,), values, config)
    np.testing.assert_array_equal(found, want)
    types = infer_expression(after)
    parts = split((after,), types, assign((after,), types, config), one_layer=False)
    assert [part.side for part in parts] == ["accel"] * 3


def test_the_array_is_busy_in_a_product_of_attention() -> None:
    maker, config = Maker(np.random.default_rng(7)), preset("base")
    lhs, rhs = maker.var((12, 128, 64)), maker.var((12, 64, 128), "y")
    body = maker.matmul(lhs, rhs, 64, 128, 3)
    kernel = kernel_of((lhs, rhs), body, config, Tuning(program_cycles))
    (layer,) = kernel.layers
    assert layer.macs == 12 * 128 * 64 * 128
    assert layer.gemm_cycles == layer.macs // 256
    assert program_cycles(kernel.program, config) < 1.15 * layer.bound_cycles


def _refusals(body: Call) -> set[str]:
    assignment = assign((body,), infer_expression(body), preset("base"))
    return set(assignment.reasons.values())


def _with_zero_points(body: Call, lhs: int, rhs: int) -> Call:
    (acc, *rest) = body.args
    attrs = QMatmulAttrs(lhs_zero_point=lhs, rhs_zero_point=rhs)
    assert isinstance(acc, Call)
    return replace(body, args=(replace(acc, attrs=attrs), *rest))


def test_what_the_array_cannot_multiply_stays_on_the_host() -> None:
    maker = Maker(np.random.default_rng(8))
    lhs, rhs = maker.var((2, 5, 4)), maker.var((2, 4, 3), "y")
    body = maker.matmul(lhs, rhs, 4, 3, 3)
    moved = _with_zero_points(body, 3, -1)
    assert _refusals(moved) == {"the array multiplies what has zero point 0, not 3 and -1"}
    one = maker.var((4, 3), "y")
    assert _refusals(maker.matmul(lhs, one, 4, 3, 3)) == {
        "stacks of matrices (2,) and () broadcast"
    }
    fixed: Expr = maker.conv(maker.var((1, 1, 1, 1)), (1, 1, 1, 1)).args[0].args[1]
    short = maker.var((1, 1, 5, 1))
    assert _refusals(maker.matmul(short, fixed, 1, 1, 4)) == {"an operand is a constant"}
    uneven = replace(
        body,
        attrs=replace(body.attrs, axis=0),
        args=(body.args[0], *(replace(each, value=each.value[:2]) for each in body.args[1:])),
    )
    assert _refusals(uneven) == {"channels are axis 2, not 0"}


def test_matrices_lie_beside_and_below_each_other() -> None:
    data = np.arange(12, dtype=np.int8).reshape(2, 3, 2)
    beside = Beside(samples=2, block=3)
    packed = beside.pack(data)
    assert packed.shape == (2, 6, 2, 1) == beside.shape(data.shape)
    assert packed[0, :, 0, 0].tolist() == [0, 1, 0, 6, 7, 0]
    assert packed[1, :, 0, 0].tolist() == [2, 3, 0, 8, 9, 0]
    assert packed[0, :, 1, 0].tolist() == [4, 5, 0, 10, 11, 0]
    assert not packed[1, :, 1, 0].any()
    np.testing.assert_array_equal(beside.unpack(packed, data.shape), data)
    below = Below(rows=4).pack(data)
    assert below.shape == (8, 3, 1, 1)
    assert below[:, :, 0, 0].tolist() == [
        [0, 2, 4], [1, 3, 5], [0, 0, 0], [0, 0, 0],
        [6, 8, 10], [7, 9, 11], [0, 0, 0], [0, 0, 0],
    ]  # fmt: skip
