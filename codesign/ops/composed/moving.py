"""Operators that put elements elsewhere, around others, or among them.

nn.mirror_pad(%x, pad_width=[[1, 2]], mode="SYMMETRIC")   the edge is repeated, with REFLECT not
nn.dilate(%x, strides=[1, 2], dilation_value=0.0)         elements move apart
slice_like(%x, %y, axes=[1])      as long as %y on the axes (none: on all)
strided_set(%x, %v, begin=[1], end=[3])    %v where strided_slice would read
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr, Tuple
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.composed.pieces import (
    attrs_of,
    composed,
    constant,
    known_shape,
    length_of,
    piece,
    take,
)
from codesign.ops.gradients.expressions import (
    number,
    op,
    reshape,
    tensor,
    where,
)
from codesign.ops.gradients.movement import spread_steps
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.window import Pair
from codesign.ops.relations import (
    attributes,
    mistake,
    normal_axis,
    require_positive,
    require_same_dtype,
    spelled,
    static_tensors,
    tensors,
)
from codesign.ops.strided_slice import StridedSliceAttrs, slices


@final
@dataclass(frozen=True, kw_only=True)
class MirrorPadAttrs(Attrs):
    """Elements before and after each axis, and whether the edge is among them."""

    pad_width: tuple[Pair, ...]
    mode: Literal["SYMMETRIC", "REFLECT"] = "SYMMETRIC"


@final
@dataclass(frozen=True, kw_only=True)
class DilateAttrs(Attrs):
    """Distances on each axis, and what comes between."""

    strides: tuple[int, ...]
    dilation_value: float = 0.0


@final
@dataclass(frozen=True, kw_only=True)
class SliceLikeAttrs(Attrs):
    """The axes that are cut; none mean all."""

    axes: tuple[int, ...] = ()


@final
@dataclass(frozen=True, kw_only=True)
class StridedSetAttrs(Attrs):
    """As of strided_slice, on every axis from the first on."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...] = ()


# --- around elements ----------------------------------------------------------------------------


def _mirror_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, MirrorPadAttrs)
    if len(attrs.pad_width) != len(data.shape):
        raise mistake(call, "needs two widths for each axis", f"found {list(attrs.pad_width)}")
    shape = []
    for length, pair in zip(data.static_shape, attrs.pad_width, strict=True):
        most = length if attrs.mode == "SYMMETRIC" else max(length - 1, 0)
        if min(pair) < 0 or max(pair) > most:
            raise mistake(call, "needs widths that it can mirror", f"{list(pair)} of {length}")
        shape.append(length + sum(pair))
    return TensorType(tuple(shape), data.dtype)


def _mirror(data: Array, attrs: MirrorPadAttrs) -> Array:
    return np.pad(
        data, attrs.pad_width, mode="symmetric" if attrs.mode == "SYMMETRIC" else "reflect"
    )


def _expand_mirror(call: Call, _types: tuple[Type, ...]) -> Expr:
    attrs = attrs_of(call, MirrorPadAttrs)
    if attrs.mode == "REFLECT":
        return op("nn.pad", *call.args, attrs=PadAttrs(pad_width=attrs.pad_width, mode="reflect"))
    value = call.args[0]
    for axis, (before, after) in enumerate(attrs.pad_width):
        parts = [value]
        mirrored = op("reverse", value, attrs=AxisAttrs(axis=axis))
        if before:
            parts.insert(0, piece(mirrored, axis, -before, _END))
        if after:
            parts.append(piece(mirrored, axis, 0, after))
        if len(parts) > 1:
            value = op("concatenate", Tuple(tuple(parts)), attrs=AxisAttrs(axis=axis))
    return value


_END: Final = 1 << 40
"""Behind the end of every axis."""


def _dilate_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    attrs = attributes(call, DilateAttrs)
    if len(attrs.strides) != len(data.shape):
        raise mistake(call, "needs a distance for each axis", f"found {list(attrs.strides)}")
    require_positive(call, attrs.strides, "distances")
    shape = tuple(
        dim if dim is UNKNOWN else max((dim - 1) * step + 1, 0)
        for dim, step in zip(data.shape, attrs.strides, strict=True)
    )
    return TensorType(shape, data.dtype)


def _dilate(data: Array, attrs: DilateAttrs) -> Array:
    shape = [max((n - 1) * s + 1, 0) for n, s in zip(data.shape, attrs.strides, strict=True)]
    result = np.full(shape, np.asarray(attrs.dilation_value).astype(data.dtype), data.dtype)
    result[tuple(slice(None, None, step) for step in attrs.strides)] = data
    return result


def _expand_dilate(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs, shape = attrs_of(call, DilateAttrs), known_shape(call, types[0])
    (data,) = call.args
    wide = spread_steps(data, shape, attrs.strides)
    if not attrs.dilation_value:
        return wide
    value: Expr = number(attrs.dilation_value, types[0])
    grid: Expr = constant(True, DType.BOOL)
    rank = len(shape)
    for axis, (length, step) in enumerate(zip(shape, attrs.strides, strict=True)):
        inside = np.arange(max((length - 1) * step + 1, 0)) % step == 0
        along = [-1 if each == axis else 1 for each in range(rank)]
        grid = op("logical_and", grid, constant(inside.reshape(along), DType.BOOL))
    return where(grid, wide, value)


# --- cutting and setting ------------------------------------------------------------------------


def _slice_like_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, like = static_tensors(call, types, 2)
    shape = list(data.static_shape)
    for axis in _sliced_axes(call, data, like):
        if like.static_shape[axis] > shape[axis]:
            raise mistake(call, "is cut to a longer axis", f"{spelled(data)} like {spelled(like)}")
        shape[axis] = like.static_shape[axis]
    return TensorType(tuple(shape), data.dtype)


def _sliced_axes(call: Call, data: TensorType, like: TensorType) -> list[int]:
    axes = attributes(call, SliceLikeAttrs).axes
    if not axes and len(data.shape) != len(like.shape):
        raise mistake(call, "takes tensors of one rank", f"{spelled(data)}, {spelled(like)}")
    for axis in axes:
        normal_axis(call, axis, len(like.shape))
    rank = len(data.shape)
    return [normal_axis(call, axis, rank) for axis in axes] or list(range(rank))


def _slice_like(data: Array, like: Array, attrs: SliceLikeAttrs) -> Array:
    axes = {axis % data.ndim for axis in attrs.axes} or set(range(data.ndim))
    kept = tuple(slice(like.shape[i] if i in axes else None) for i in range(data.ndim))
    return np.array(data[kept], order="C")


def _expand_slice_like(call: Call, types: tuple[Type, ...]) -> Expr:
    data, like = call.args
    shape = tensor(types[1]).shape
    rank = len(tensor(types[0]).shape)
    axes = [axis % rank for axis in attrs_of(call, SliceLikeAttrs).axes] or list(range(rank))
    for axis in axes:
        end = shape[axis]
        if isinstance(end, int):
            data = piece(data, axis, 0, end)
        else:
            data = take(data, op("dyn.arange", reshape(length_of(like, axis), ())), axis)
    return data


def _set_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, news = static_tensors(call, types, 2)
    attrs = attributes(call, StridedSetAttrs)
    require_same_dtype(call, (data, news))
    fits = len(attrs.begin) == len(attrs.end) <= len(data.shape) and (
        len(attrs.strides) in (0, len(attrs.begin))
    )
    if not fits or 0 in attrs.strides:
        found = f"{len(attrs.begin)} begins, {len(attrs.end)} ends, {len(attrs.strides)} strides"
        raise mistake(call, "needs a begin, an end and a stride that is not 0 for axes", found)
    wanted = tuple(map(len, _ranges(attrs, data.static_shape)))
    if news.static_shape != wanted:
        raise mistake(call, "takes what it reads", f"{spelled(news)}, expected {list(wanted)}")
    return data


def _ranges(attrs: StridedSetAttrs, shape: tuple[int, ...]) -> list[range]:
    as_slice = StridedSliceAttrs(begin=attrs.begin, end=attrs.end, strides=attrs.strides)
    found = slices(as_slice, len(shape))
    return [range(*each.indices(size)) for each, size in zip(found, shape, strict=True)]


def _set(data: Array, news: Array, attrs: StridedSetAttrs) -> Array:
    result = data.copy()
    steps = attrs.strides or (1,) * len(attrs.begin)
    where_to = tuple(map(slice, attrs.begin, attrs.end, steps))
    result[where_to] = news
    return result


def _expand_set(call: Call, types: tuple[Type, ...]) -> Expr:
    """Give each place of the data the row of the news that is meant for it; others keep theirs."""
    data, news = call.args
    shape = known_shape(call, types[0])
    rank = len(shape)
    inside: Expr = constant(True, DType.BOOL)
    found = _ranges(attrs_of(call, StridedSetAttrs), shape)
    if any(len(each) == 0 for each in found):
        return data
    for axis, (each, size) in enumerate(zip(found, shape, strict=True)):
        if len(each) == size and each.step == 1:
            continue
        rows = [each.index(place) if place in each else 0 for place in range(size)]
        news = take(news, constant(rows, DType.INT64), axis)
        along = [-1 if other == axis else 1 for other in range(rank)]
        mask = np.reshape([place in each for place in range(size)], along)
        inside = op("logical_and", inside, constant(mask, DType.BOOL))
    return where(inside, news, data)


OPERATORS: Final = (
    composed("nn.mirror_pad", _mirror_relation, _mirror, _expand_mirror, MirrorPadAttrs),
    composed("nn.dilate", _dilate_relation, _dilate, _expand_dilate, DilateAttrs),
    composed("slice_like", _slice_like_relation, _slice_like, _expand_slice_like, SliceLikeAttrs),
    composed("strided_set", _set_relation, _set, _expand_set, StridedSetAttrs),
)
"""Every operator of this file."""
