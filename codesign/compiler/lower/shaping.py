"""Operators on shapes and layouts, said by reshape, transpose, sums, slices and one product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

import numpy as np

from codesign.compiler.lower.graph import Step, Value
from codesign.compiler.lower.movement import SliceAttrs
from codesign.compiler.lower.rule import attrs_of
from codesign.ir.relay.expr import Attrs
from codesign.ops.axis import AxisAttrs
from codesign.ops.cast import CastAttrs
from codesign.ops.collapse_sum import collapsed_axes
from codesign.ops.layout import Layout
from codesign.ops.layout_transform import LayoutTransformAttrs
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs
from codesign.ops.nn.conv2d import DATA_AXES, Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.repeating import TileAttrs, aligned
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.split import SplitAttrs
from codesign.ops.strided_slice import StridedSliceAttrs, slices
from codesign.ops.table import OPERATORS
from codesign.ops.transpose import TransposeAttrs


class Writer(Protocol):
    """Appends steps to the graph that is being made."""

    def call(
        self, name: str, inputs: tuple[Value, ...], like: Value, attrs: Attrs | None = None
    ) -> Value:
        """Append a step whose result has the shape and type of `like`."""
        ...

    def legal_call(
        self, name: str, inputs: tuple[Value, ...], like: Value, attrs: Attrs | None = None
    ) -> Value:
        """Append what such a step becomes."""
        ...


Rewrite: TypeAlias = Callable[[Writer, Step], Value]


def _reshape(writer: Writer, step: Step) -> Value:
    return _reshaped(writer, step.inputs[0], step.result.shape)


def _reshaped(writer: Writer, value: Value, shape: tuple[int, ...]) -> Value:
    if value.shape == shape:
        return value
    like = Value(shape, value.dtype)
    return writer.call("reshape", (value,), like, ReshapeAttrs(shape=shape))


def _transposed(writer: Writer, value: Value, axes: list[int]) -> Value:
    if axes == sorted(axes):
        return value
    like = Value(tuple(value.shape[axis] for axis in axes), value.dtype)
    return writer.call("transpose", (value,), like, TransposeAttrs(axes=tuple(axes)))


def _collapse_sum(writer: Writer, step: Step) -> Value:
    data = step.inputs[0]
    axes = collapsed_axes(data.shape, step.result.shape)
    if not axes:
        return data
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(data.shape))
    over = ReduceAttrs(axis=axes, keepdims=True)
    total = writer.call("sum", (data,), Value(kept, data.dtype), over)
    return _reshaped(writer, total, step.result.shape)


def _broadcast_to_like(writer: Writer, step: Step) -> Value:
    return writer.call("broadcast_to", step.inputs[:1], step.result)


def _cast_like(writer: Writer, step: Step) -> Value:
    attrs = CastAttrs(dtype=step.result.dtype)
    return writer.call("cast", step.inputs[:1], step.result, attrs)


def in_plain_layout(writer: Writer, step: Step) -> Value | None:
    """Return a layer on data as NCHW, moved there and back; None where it is so already."""
    match step.attrs:
        case Conv2DAttrs(data_layout=data, kernel_layout=kernel) as attrs if not attrs.is_plain:
            layouts: tuple[tuple[str, str], ...] = ((data, "NCHW"), (kernel, "OIHW"))
            plain: Attrs = replace(attrs, data_layout="NCHW", kernel_layout="OIHW")
        case Pool2DAttrs(layout=data) as attrs if not attrs.is_plain:
            layouts = ((data, "NCHW"),)
            plain = replace(attrs, layout="NCHW")
        case _:
            return None
    inputs = tuple(
        _moved(writer, value, source, target)
        for value, (source, target) in zip(step.inputs, layouts, strict=True)
    )
    layout = Layout.of(data)
    shape = tuple(_length(dim) for dim in layout.plain_shape(DATA_AXES, step.result.shape))
    result = writer.legal_call(step.operator, inputs, Value(shape, step.result.dtype), plain)
    return _moved(writer, result, "NCHW", data)


def _layout_transform(writer: Writer, step: Step) -> Value:
    attrs = attrs_of(step, LayoutTransformAttrs)
    return _moved(writer, step.inputs[0], attrs.src_layout, attrs.dst_layout)


def _moved(writer: Writer, data: Value, src_layout: str, dst_layout: str) -> Value:
    if src_layout == dst_layout:
        return data
    source, target = Layout.of(src_layout), Layout.of(dst_layout)
    if data.constant is not None:
        plain = source.to_plain(tuple(source.axes), data.constant)
        array = target.from_plain(tuple(source.axes), plain)
        return Value(array.shape, data.dtype, array)
    axes = source.axes
    joined = [place for axis in axes for place in source.places(axis)]
    moved = _transposed(writer, data, joined)
    split = [part for axis in axes for part in target.pieces(axis)]
    lengths = target.stored_shape(tuple(axes), source.plain_shape(tuple(axes), data.shape))
    by_part = dict(zip(target.parts, lengths, strict=True))
    apart = _reshaped(writer, moved, tuple(_length(by_part[part]) for part in split))
    return _transposed(writer, apart, [split.index(part) for part in target.parts])


def _length(dim: object) -> int:
    assert isinstance(dim, int), "what is lowered has known lengths"
    return dim


def _batch_matmul(writer: Writer, step: Step) -> Value:
    lhs, rhs = step.inputs
    attrs = attrs_of(step, BatchMatmulAttrs)
    left = _transposed(writer, lhs, [0, 2, 1]) if attrs.transpose_a else lhs
    right = _transposed(writer, rhs, [0, 2, 1]) if attrs.transpose_b else rhs
    return writer.call("nn.matmul", (left, right), step.result)


def _stack(writer: Writer, step: Step) -> Value:
    rank = len(step.result.shape)
    axis = attrs_of(step, AxisAttrs).axis % rank
    shape = tuple(1 if each == axis else dim for each, dim in enumerate(step.result.shape))
    rows = tuple(_reshaped(writer, value, shape) for value in step.inputs)
    return writer.call("concatenate", rows, step.result, AxisAttrs(axis=axis))


def _tile(writer: Writer, step: Step) -> Value:
    pairs = aligned(step.inputs[0].shape, attrs_of(step, TileAttrs).reps)
    shape = tuple(_length(length) for length, _ in pairs)
    return writer.call("cpu.tile", (_reshaped(writer, step.inputs[0], shape),), step.result)


def _reverse(writer: Writer, step: Step) -> Value:
    (x,) = step.inputs
    reversed_axis = attrs_of(step, AxisAttrs).axis % len(x.shape)
    begins = tuple(dim - 1 if i == reversed_axis else 0 for i, dim in enumerate(x.shape))
    steps = tuple(-1 if i == reversed_axis else 1 for i in range(len(x.shape)))
    return writer.call("cpu.slice", (x,), step.result, SliceAttrs(begin=begins, step=steps))


def _arange(_writer: Writer, step: Step) -> Value:
    array = OPERATORS["arange"].reference(step.attrs)
    assert not isinstance(array, tuple), "arange gives a tensor"
    return Value(array.shape, step.result.dtype, array)


def _shape_of(_writer: Writer, step: Step) -> Value:
    array = np.array(step.inputs[0].shape, step.result.dtype.numpy)
    return Value(array.shape, step.result.dtype, array)


def _split(writer: Writer, step: Step) -> Value:
    (x,) = step.inputs
    attrs = attrs_of(step, SplitAttrs)
    axis = attrs.axis % len(x.shape)
    where = attrs.indices_or_sections
    if isinstance(where, int):
        begin = step.field * (x.shape[axis] // where)
    else:
        begin = [first for first, _ in pairwise((0, *where, x.shape[axis]))][step.field]
    starts = tuple(begin if i == axis else 0 for i in range(len(x.shape)))
    piece = SliceAttrs(begin=starts, step=(1,) * len(x.shape))
    return writer.call("cpu.slice", (x,), step.result, piece)


def _strided_slice(writer: Writer, step: Step) -> Value:
    (x,) = step.inputs
    begins, strides = [], []
    for each, size in zip(
        slices(attrs_of(step, StridedSliceAttrs), len(x.shape)), x.shape, strict=True
    ):
        begin, _, stride = each.indices(size)
        begins.append(begin)
        strides.append(stride)
    piece = SliceAttrs(begin=tuple(begins), step=tuple(strides))
    return writer.call("cpu.slice", (x,), step.result, piece)


REWRITES: Final[Mapping[str, Rewrite]] = {
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "reshape_like": _reshape,
    "collapse_sum_to": _collapse_sum,
    "collapse_sum_like": _collapse_sum,
    "broadcast_to_like": _broadcast_to_like,
    "cast_like": _cast_like,
    "layout_transform": _layout_transform,
    "nn.batch_matmul": _batch_matmul,
    "stack": _stack,
    "tile": _tile,
    "reverse": _reverse,
    "arange": _arange,
    "shape_of": _shape_of,
    "split": _split,
    "strided_slice": _strided_slice,
}
"""What each operator becomes."""
