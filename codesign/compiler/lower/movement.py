"""Operators that move elements, in index notation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from codesign.compiler.lower.graph import Step
from codesign.compiler.lower.rule import Read, Rule, attrs_of, broadcast_index
from codesign.dtypes import DType
from codesign.ir.relay.expr import Attrs
from codesign.ir.tensor.compute import (
    Apply,
    Expr,
    Fn,
    Guarded,
    Literal,
    Position,
    apply,
    convert,
)
from codesign.ir.tensor.index import Index, element, flatten, unflatten
from codesign.ir.tensor.uses import axes_of
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.one_hot import OneHotAttrs
from codesign.ops.repeating import RepeatAttrs
from codesign.ops.transpose import TransposeAttrs


@final
@dataclass(frozen=True, kw_only=True)
class SliceAttrs(Attrs):
    """`cpu.slice`: result[i, …] = data[begin + i * step, …] on every axis."""

    begin: tuple[int, ...]
    step: tuple[int, ...]


@final
@dataclass(frozen=True, kw_only=True)
class DilateAttrs(Attrs):
    """`cpu.dilate`: rows and columns move apart, with zeros between them."""

    strides: tuple[int, int]


@final
@dataclass(frozen=True, kw_only=True)
class PatchesAttrs(Attrs):
    """`cpu.patches`: steps of a window and steps in it, over data that is padded already."""

    strides: tuple[int, int]
    dilation: tuple[int, int]


def _reshape(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    return read(0, unflatten(flatten(index, step.result.shape), step.inputs[0].shape))


def _transpose(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    rank = len(index)
    axes = attrs_of(step, TransposeAttrs).axes or tuple(reversed(range(rank)))
    source = [Index()] * rank
    for each, axis in zip(index, axes, strict=True):
        source[axis % rank] = each
    return read(0, tuple(source))


def _broadcast(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    return read(0, broadcast_index(step.inputs[0], index))


def _slice(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, SliceAttrs)
    source = (
        each * stride + begin
        for each, begin, stride in zip(index, attrs.begin, attrs.step, strict=True)
    )
    return read(0, tuple(source))


def _pad(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, PadAttrs)
    shape = step.inputs[0].shape
    source = tuple(each - before for each, (before, _) in zip(index, attrs.pad_width, strict=True))
    match attrs.mode:
        case "constant":
            conditions = tuple((i, 0, size) for i, size in zip(source, shape, strict=True))
            dtype = step.result.dtype
            value = attrs.value if dtype.is_float else int(attrs.value)
            return Guarded(conditions, read(0, source), Literal(value, dtype))
        case "edge":
            pairs = zip(source, shape, strict=True)
            return read(0, tuple(each.clamp(0, max(size - 1, 0)) for each, size in pairs))
        case _:
            return read(0, tuple(_reflect(i, n) for i, n in zip(source, shape, strict=True)))


def _reflect(index: Index, size: int) -> Index:
    low, high = index.bounds()
    if low >= 0 and high < size:
        return index
    period = max(2 * (size - 1), 1)
    around = index % period
    mirrored = around * -1 + period
    return around.clamp(0, size - 1) + mirrored.clamp(0, size - 1) - (size - 1)


def _patches(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    """Give what each place of a window meets: [channel, row, column, n, y, x] of padded data."""
    attrs = attrs_of(step, PatchesAttrs)
    channel, row, column, n, y, x = index
    down = y * attrs.strides[0] + row * attrs.dilation[0]
    across = x * attrs.strides[1] + column * attrs.dilation[1]
    return read(0, (n, channel, down, across))


def _dilate(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    n, c, y, x = index
    rows, columns = attrs_of(step, DilateAttrs).strides
    conditions = ((y % rows, 0, 1), (x % columns, 0, 1))
    return Guarded(
        conditions, read(0, (n, c, y // rows, x // columns)), Literal(0, step.result.dtype)
    )


def _from_end(index: Expr, size: int, over: tuple[Index, ...]) -> Index:
    """Return a place that a tensor gives: negative ones count from the end, all are held inside."""
    wide = convert(index, DType.INT64)
    moved = apply(Fn.ADD, wide, Literal(size, DType.INT64))
    negative = apply(Fn.LESS, wide, Literal(0, DType.INT64), dtype=DType.BOOL)
    place = apply(Fn.SELECT, negative, moved, wide, dtype=DType.INT64)
    return element(place, axes_of(over)).clamp(0, max(size - 1, 0))


def _take(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    """Operand 2, where there is one, is the axis' length, which the data's shape does not tell."""
    data, indices = step.inputs[:2]
    axis = attrs_of(step, AxisAttrs).axis % len(data.shape)
    rank = len(indices.shape)
    over = index[axis : axis + rank]
    if len(step.inputs) == 2:
        place = _from_end(read(1, over), data.shape[axis], over)
    else:
        place = _within(read(1, over), read(2, ()), over)
    return read(0, (*index[:axis], place, *index[axis + rank :]))


def _within(index: Expr, length: Expr, over: tuple[Index, ...]) -> Index:
    """Return a place in an axis whose length is known when the kernel runs, as `_from_end` does."""
    wide, nothing = convert(index, DType.INT64), Literal(0, DType.INT64)
    negative = apply(Fn.LESS, wide, nothing, dtype=DType.BOOL)
    moved = apply(Fn.SELECT, negative, apply(Fn.ADD, wide, length), wide, dtype=DType.INT64)
    last = apply(Fn.SUBTRACT, length, Literal(1, DType.INT64))
    held = apply(Fn.MAXIMUM, apply(Fn.MINIMUM, moved, last), nothing)
    return element(held, axes_of(over))


def _gather_elements(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    axis = attrs_of(step, AxisAttrs).axis % len(index)
    place = _from_end(read(1, index), step.inputs[0].shape[axis], index)
    return read(0, (*index[:axis], place, *index[axis + 1 :]))


def _gather_nd(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    data, indices = step.inputs
    over = index[: len(indices.shape) - 1]
    places = tuple(
        _from_end(read(1, (*over, Index((), axis))), data.shape[axis], over)
        for axis in range(indices.shape[-1])
    )
    return read(0, (*places, *index[len(over) :]))


def _tile(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    pairs = zip(index, step.inputs[0].shape, strict=True)
    return read(0, tuple(each % max(size, 1) for each, size in pairs))


def _repeat(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, RepeatAttrs)
    axis = attrs.axis % len(index)
    return read(0, (*index[:axis], index[axis] // attrs.repeats, *index[axis + 1 :]))


def _one_hot(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    axis = attrs_of(step, OneHotAttrs).axis % len(index)
    told = convert(read(0, (*index[:axis], *index[axis + 1 :])), DType.INT64)
    is_here = apply(Fn.EQUAL, told, Position(index[axis]), dtype=DType.BOOL)
    return Apply(Fn.SELECT, (is_here, read(1, ()), read(2, ())), step.result.dtype)


def _table(read: Read, number: int, index: Index) -> Index:
    return element(read(number, (index,)), axes_of((index,)))


def _resize_nearest(_step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    n, c, y, x = index
    return read(0, (n, c, _table(read, 1, y), _table(read, 2, x)))


def _resize_linear(_step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    n, c, y, x = index
    rows = (_table(read, 1, y), _table(read, 2, y))
    columns = (_table(read, 4, x), _table(read, 5, x))
    down, right = read(3, (y,)), read(6, (x,))
    upper, lower = (
        _between(read(0, (n, c, row, columns[0])), read(0, (n, c, row, columns[1])), right)
        for row in rows
    )
    return _between(upper, lower, down)


def _between(first: Expr, second: Expr, share: Expr) -> Expr:
    return apply(Fn.FMA, apply(Fn.SUBTRACT, second, first), share, first)


RULES: Final[Mapping[str, Rule]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_to": _broadcast,
    "cpu.slice": _slice,
    "nn.pad": _pad,
    "cpu.dilate": _dilate,
    "cpu.patches": _patches,
    "cpu.tile": _tile,
    "repeat": _repeat,
    "one_hot": _one_hot,
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "cpu.resize_nearest": _resize_nearest,
    "cpu.resize_linear": _resize_linear,
}
"""The rules by operator."""
