"""Index expressions simplify, and kernels print."""

from __future__ import annotations

import itertools

import numpy as np

from codesign.dtypes import DType
from codesign.ir.tensor.compute import Fn, Literal, Load, apply
from codesign.ir.tensor.index import Axis, Index, at, flatten, unflatten
from codesign.ir.tensor.kernel import LoopKernel, Stage
from codesign.ir.tensor.layout import Buffer, Layout
from codesign.ir.tensor.printer import buffer_text, index_text, kernel_text


def test_blocks_and_lanes_meet_their_layout_without_division() -> None:
    block, lane = Axis("block", 3), Axis("lane", 8)
    channel = at(block) * 8 + at(lane)
    assert index_text(channel // 8) == "block"
    assert index_text(channel % 8) == "lane"


def test_division_that_stays_prints() -> None:
    i = Axis("i", 10)
    assert index_text((at(i) + 1) // 4) == "(i + 1) // 4"
    assert index_text((at(i) * 4 + 9) % 4) == "1"


def test_unflatten_undoes_flatten() -> None:
    axes = tuple(Axis(f"i{number}", extent) for number, extent in enumerate((2, 3, 5)))
    index = tuple(at(axis) for axis in axes)
    assert unflatten(flatten(index, (2, 3, 5)), (2, 3, 5)) == index


def test_addresses_of_a_blocked_tensor_equal_numpy() -> None:
    shape, halo = (2, 11, 3, 4), (1, 2, 0, 1)
    buffer = Buffer("x", shape, DType.FLOAT32, Layout(block=4, halo=halo))
    assert buffer.physical_shape == (2, 3, 4, 7, 4)
    for n, c, y, x in itertools.product(*(range(extent) for extent in shape)):
        place = buffer.address((Index((), n), Index((), c), Index((), y), Index((), x)))
        expected = np.ravel_multi_index((n, c // 4, y + 1, x + 2, c % 4), buffer.physical_shape)
        assert place == Index((), int(expected))


def test_a_kernel_prints_as_loops() -> None:
    source = Buffer("source", (3, 5), DType.FLOAT32)
    target = Buffer("target", (3, 5), DType.FLOAT32)
    axes = (Axis("i", 3), Axis("j", 5))
    index = tuple(at(axis) for axis in axes)
    body = apply(Fn.MAXIMUM, Load(source, index), Literal(0.0, DType.FLOAT32))
    kernel = LoopKernel((source, target), (Stage(target, index, axes, body),))
    expected = "for i in 3, j in 5:\n  target[i, j] = maximum(source[i, j], 0.0)"
    assert kernel_text(kernel) == expected
    wide = Buffer("x", (1, 8, 2, 2), DType.INT8, Layout(8, (1, 1, 1, 1), 3, DType.INT16))
    assert buffer_text(wide) == (
        "x: Tensor[(1, 8, 2, 2), int8] (block 8; halo (1, 1, 1, 1) of 3; as int16)"
    )
