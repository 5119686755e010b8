"""Operators that tensors of integers tell what to do.

    dyn.tile(%x, %reps)                 dyn.expand_dims(%x, %axis, num_newaxis=1)
    dyn.one_hot(%i, %on, %off, %depth)  dyn.squeeze(%x, %axes)
    dyn.topk(%x, %k)                    dyn.nn.pad(%x, %widths, %value)
    dyn.strided_slice(%x, %begin, %end, %strides)

They do what the operators without `dyn.` do. `%reps`, `%axes`, `%begin` … are vectors whose length
is known, `%widths` has two numbers for each axis, the others are scalars. Each length that they
have an influence on is `?`; where they are constants the pass dynamic-to-static knows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr, Tuple
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.composed.ordering import OPERATORS as ORDERING
from codesign.ops.composed.ordering import ArgSortAttrs, SortAttrs
from codesign.ops.composed.pieces import attrs_of, composed, constant, piece, take
from codesign.ops.counting import ShapeOfAttrs
from codesign.ops.gradients.expressions import (
    add,
    cast,
    concatenate,
    divide,
    expand_dims,
    multiply,
    negative,
    op,
    reshape,
    subtract,
    tensor,
    total,
    where,
)
from codesign.ops.operator import Value
from codesign.ops.relations import (
    INTEGERS,
    attributes,
    mistake,
    normal_axis,
    require_dtype,
    require_rank,
    require_same_dtype,
    spelled,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class DynExpandDimsAttrs(Attrs):
    """How many axes of length 1."""

    num_newaxis: int = 1


@final
@dataclass(frozen=True, kw_only=True)
class DynTopKAttrs(Attrs):
    """As of topk, without k."""

    axis: int = -1
    ret_type: Literal["both", "values", "indices"] = "both"
    is_ascend: bool = False
    dtype: DType = DType.INT32


def _told(call: Call, numbers: TensorType, what: str) -> int:
    """Return how many numbers a vector has."""
    require_rank(call, numbers, 1, what)
    require_dtype(call, numbers, INTEGERS, what)
    (count,) = numbers.shape
    if count is UNKNOWN:
        raise mistake(call, "needs a shape of known length", f"{what} is {spelled(numbers)}")
    return count


def _scalar(call: Call, number: TensorType, what: str) -> None:
    require_rank(call, number, 0, what)
    require_dtype(call, number, INTEGERS, what)


def _shape(value: Expr) -> Expr:
    return op("shape_of", value, attrs=ShapeOfAttrs())


def _wide(numbers: Expr) -> Expr:
    return cast(numbers, DType.INT64)


def _whole(value: int) -> Expr:
    return constant(value, DType.INT64)


def _row(count: int) -> Expr:
    return constant(range(count), DType.INT64)


# --- tile ---------------------------------------------------------------------------------------


def _tile_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, reps = tensors(call, types, 2)
    rank = max(_told(call, reps, "repetitions"), len(data.shape))
    return TensorType((UNKNOWN,) * rank, data.dtype)


def _tile(data: Array, reps: Array) -> Array:
    if np.any(reps < 0):
        found = f"found {reps.tolist()}"
        raise CodesignError.of("dyn.tile needs repetitions that are not negative", found=found)
    return np.tile(data, tuple(reps.tolist()))


def _expand_tile(call: Call, types: tuple[Type, ...]) -> Expr:
    data, reps = call.args
    own, count = len(tensor(types[0]).shape), _told(call, tensor(types[1]), "repetitions")
    rank = max(own, count)
    if rank == 0:
        return data
    lengths = _lengthened(_shape(data), rank - own)
    times = _lengthened(_wide(reps), rank - count)
    ones = constant([1] * rank, DType.INT64)
    apart = op("dyn.reshape", data, _woven(ones, lengths, rank))
    spread = op("dyn.broadcast_to", apart, _woven(times, lengths, rank))
    return op("dyn.reshape", spread, multiply(lengths, times))


def _lengthened(numbers: Expr, count: int) -> Expr:
    """Return a vector with ones in front."""
    return concatenate([constant([1] * count, DType.INT64), numbers], 0) if count else numbers


def _woven(first: Expr, second: Expr, rank: int) -> Expr:
    """Return the numbers of two vectors in turn."""
    return reshape(op("stack", Tuple((first, second)), attrs=AxisAttrs(axis=1)), (2 * rank,))


# --- axes of length 1 ---------------------------------------------------------------------------


def _expand_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, axis = tensors(call, types, 2)
    _scalar(call, axis, "an axis")
    count = attributes(call, DynExpandDimsAttrs).num_newaxis
    if count < 0:
        raise mistake(call, "adds axes", f"found {count}")
    return TensorType((UNKNOWN,) * (len(data.shape) + count), data.dtype)


def _expand(data: Array, axis: Array, attrs: DynExpandDimsAttrs) -> Array:
    begin = int(axis) if axis >= 0 else data.ndim + 1 + int(axis)
    if not 0 <= begin <= data.ndim:
        what = "dyn.expand_dims names an axis that does not exist"
        raise CodesignError.of(what, found=f"axis {int(axis)}, the rank is {data.ndim}")
    return data.reshape(*data.shape[:begin], *(1,) * attrs.num_newaxis, *data.shape[begin:])


def _expand_expand(call: Call, types: tuple[Type, ...]) -> Expr:
    """Read each length of the result from a table: one of the data, or 1 at its end."""
    data, axis = call.args
    own, more = len(tensor(types[0]).shape), attrs_of(call, DynExpandDimsAttrs).num_newaxis
    # An axis that does not exist is no place of this table.
    begin = take(constant([*range(own + 1), *range(own + 1)], DType.INT64), _shifted(axis, own), 0)
    if own + more == 0:
        return op("dyn.reshape", data, constant([], DType.INT64))
    here = _row(own + more)
    is_new = op(
        "logical_and",
        op("greater_equal", here, begin),
        op("less", here, add(begin, _whole(more))),
    )
    old = where(op("less", here, begin), here, subtract(here, _whole(more)))
    table = concatenate([_shape(data), constant([1], DType.INT64)], 0)
    source = where(is_new, _whole(own), old)
    return op("dyn.reshape", data, take(table, source, 0))


def _shifted(axis: Expr, own: int) -> Expr:
    """Return a number that is a place of a table of 2 (own + 1) only for axes that exist."""
    wide = _wide(axis)
    is_below = op("less", wide, _whole(-(own + 1)))
    is_above = op("greater", wide, _whole(own))
    far = op("logical_or", is_below, is_above)
    return where(far, _whole(1 << 40), add(wide, _whole(own + 1)))


def _squeeze_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, axes = tensors(call, types, 2)
    count = _told(call, axes, "axes")
    if count > len(data.shape):
        raise mistake(call, "drops axes that there are", f"{count} of rank {len(data.shape)}")
    return TensorType((UNKNOWN,) * (len(data.shape) - count), data.dtype)


def _squeeze(data: Array, axes: Array) -> Array:
    found = [int(axis) for axis in axes]
    normal = {axis % max(data.ndim, 1) for axis in found if -data.ndim <= axis < data.ndim}
    if len(normal) < len(found) or any(data.shape[axis] != 1 for axis in normal):
        what = "dyn.squeeze drops axes of length 1, each once"
        raise CodesignError.of(what, found=f"axes {found} of shape {list(data.shape)}")
    return data.reshape([n for axis, n in enumerate(data.shape) if axis not in normal])


def _expand_squeeze(call: Call, types: tuple[Type, ...]) -> Expr:
    """Give the axes that stay numbers; length j of the result is that of the axis numbered j."""
    data, axes = call.args
    rank, count = len(tensor(types[0]).shape), _told(call, tensor(types[1]), "axes")
    if count == 0:
        return data
    places = take(_row(rank), _wide(axes), 0)
    hits = op("equal", expand_dims(places, 1), _row(rank))
    dropped = op("not_equal", total(cast(hits, DType.INT64), (0,)), _whole(0))
    kept = cast(op("logical_not", dropped), DType.INT64)
    # An axis named twice leaves more than the result has room for, which no length then mends.
    before = np.tri(rank, k=-1, dtype=np.int64)
    numbers = total(multiply(constant(before, DType.INT64), kept), (1,))
    if rank == count:
        return op("dyn.reshape", data, constant([], DType.INT64))
    own = constant(np.arange(rank - count)[:, None], DType.INT64)
    chosen = multiply(cast(op("equal", own, numbers), DType.INT64), kept)
    return op("dyn.reshape", data, total(multiply(chosen, _shape(data)), (1,)))


# --- one_hot, topk ------------------------------------------------------------------------------


def _hot_relation(call: Call, types: tuple[Type, ...]) -> Type:
    indices, on, off, depth = tensors(call, types, 4)
    require_dtype(call, indices, INTEGERS, "index tensor")
    require_rank(call, on, 0, "a value")
    require_rank(call, off, 0, "a value")
    require_same_dtype(call, (on, off))
    _scalar(call, depth, "a depth")
    axis = normal_axis(call, attributes(call, AxisAttrs).axis, len(indices.shape) + 1)
    return TensorType((*indices.shape[:axis], UNKNOWN, *indices.shape[axis:]), on.dtype)


def _hot(indices: Array, on: Array, off: Array, depth: Array, attrs: AxisAttrs) -> Array:
    if depth < 0:
        what = "dyn.one_hot needs a depth that is not negative"
        raise CodesignError.of(what, found=f"{int(depth)}")
    axis = attrs.axis % (indices.ndim + 1)
    along = [-1 if each == axis else 1 for each in range(indices.ndim + 1)]
    is_hot = np.expand_dims(indices, axis) == np.arange(int(depth)).reshape(along)
    return np.where(is_hot, on, off).astype(on.dtype)


def _expand_hot(call: Call, types: tuple[Type, ...]) -> Expr:
    indices, on, off, depth = call.args
    rank = len(tensor(types[0]).shape) + 1
    axis = attrs_of(call, AxisAttrs).axis % rank
    along = reshape(op("dyn.arange", depth), [-1 if each == axis else 1 for each in range(rank)])
    return where(op("equal", expand_dims(_wide(indices), axis), along), on, off)


_ARGSORT: Final = next(each for each in ORDERING if each.name == "argsort")


def _topk_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, k = tensors(call, types, 2)
    attrs = attributes(call, DynTopKAttrs)
    _scalar(call, k, "a number")
    if attrs.dtype not in INTEGERS:
        raise mistake(call, "gives integers", f"the element type of places is {attrs.dtype}")
    axis = normal_axis(call, attrs.axis, len(data.shape))
    shape = (*data.shape[:axis], UNKNOWN, *data.shape[axis + 1 :])
    both = (TensorType(shape, data.dtype), TensorType(shape, attrs.dtype))
    return TupleType(both) if attrs.ret_type == "both" else both[attrs.ret_type == "indices"]


def _topk(data: Array, k: Array, attrs: DynTopKAttrs) -> Value:
    length = data.shape[attrs.axis]
    if not 0 <= k <= length:
        what = "dyn.topk gives up to all elements of an axis"
        raise CodesignError.of(what, found=f"{int(k)} of {length}")
    order = ArgSortAttrs(axis=attrs.axis, is_ascend=attrs.is_ascend, dtype=attrs.dtype)
    whole = np.asarray(_ARGSORT.reference(data, order))
    indices = np.take(whole, range(int(k)), axis=attrs.axis)
    values = np.take_along_axis(data, indices.astype(np.int64), axis=attrs.axis)
    match attrs.ret_type:
        case "both":
            return np.asarray(values), indices
        case "values":
            return np.asarray(values)
        case "indices":
            return indices


def _expand_topk(call: Call, types: tuple[Type, ...]) -> Expr:
    data, k = call.args
    attrs = attrs_of(call, DynTopKAttrs)
    axis = attrs.axis % len(tensor(types[0]).shape)
    order = ArgSortAttrs(axis=axis, is_ascend=attrs.is_ascend, dtype=attrs.dtype)
    rows = op("dyn.arange", k)
    indices = take(op("argsort", data, attrs=order), rows, axis)
    if attrs.ret_type == "indices":
        return indices
    in_order = op("sort", data, attrs=SortAttrs(axis=axis, is_ascend=attrs.is_ascend))
    values = take(in_order, rows, axis)
    return values if attrs.ret_type == "values" else Tuple((values, indices))


# --- pad, strided_slice -------------------------------------------------------------------------


def _pad_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, widths, value = tensors(call, types, 3)
    require_dtype(call, widths, INTEGERS, "widths")
    if widths.shape != (len(data.shape), 2):
        found = f"found {spelled(widths)} for rank {len(data.shape)}"
        raise mistake(call, "needs a shape of known length: two widths for each axis", found)
    require_rank(call, value, 0, "a value")
    require_same_dtype(call, (data, value))
    return TensorType((UNKNOWN,) * len(data.shape), data.dtype)


def _pad(data: Array, widths: Array, value: Array) -> Array:
    if np.any(widths < 0):
        what = "dyn.nn.pad needs widths that are not negative"
        raise CodesignError.of(what, found=f"{widths.tolist()}")
    return np.pad(data, widths, constant_values=value)


def _expand_pad(call: Call, types: tuple[Type, ...]) -> Expr:
    """Put tensors that hold the value before and behind, axis by axis."""
    data, widths, value = call.args
    rank = len(tensor(types[0]).shape)
    for axis in range(rank):
        shape = _shape(data)
        around = []
        for side in (0, 1):
            width = reshape(piece(piece(_wide(widths), 0, axis, axis + 1), 1, side, side + 1), (1,))
            parts = [piece(shape, 0, 0, axis), width, piece(shape, 0, axis + 1, rank)]
            around.append(op("dyn.full", value, concatenate(parts, 0)))
        data = concatenate([around[0], data, around[1]], axis)
    return data


def _slice_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, *numbers = tensors(call, types, 4)
    counts = {_told(call, each, "numbers") for each in numbers}
    (count, *others) = counts
    if others or count > len(data.shape):
        found = f"{sorted(counts)} for rank {len(data.shape)}"
        raise mistake(call, "takes as many begins as ends and strides", found)
    return TensorType(((UNKNOWN,) * count + data.shape[count:]), data.dtype)


def _slice(data: Array, begin: Array, end: Array, strides: Array) -> Array:
    if np.any(strides == 0):
        raise CodesignError.of("dyn.strided_slice needs strides that are not 0")
    kept = tuple(map(slice, begin.tolist(), end.tolist(), strides.tolist()))
    return np.array(data[kept], order="C")


def _expand_slice(call: Call, types: tuple[Type, ...]) -> Expr:
    """Take the places begin, begin + stride, … of each axis, held as Python holds them."""
    data, *numbers = call.args
    count = _told(call, tensor(types[1]), "begins")
    for axis in range(count):
        begin, end, step = (reshape(piece(_wide(each), 0, axis, axis + 1), ()) for each in numbers)
        length = reshape(piece(_shape(data), 0, axis, axis + 1), ())
        is_back = op("less", step, _whole(0))
        low = where(is_back, _whole(-1), _whole(0))
        high = where(is_back, subtract(length, _whole(1)), length)
        first, behind = (_held(each, length, low, high) for each in (begin, end))
        way = where(is_back, subtract(first, behind), subtract(behind, first))
        size = where(is_back, negative(step), step)
        room = op("maximum", way, _whole(0))
        turns = divide(add(room, subtract(size, _whole(1))), size)
        rows = add(first, multiply(op("dyn.arange", turns), step))
        data = take(data, rows, axis)
    return data


def _held(place: Expr, length: Expr, low: Expr, high: Expr) -> Expr:
    moved = where(op("less", place, _whole(0)), add(place, length), place)
    return op("minimum", op("maximum", moved, low), high)


OPERATORS: Final = (
    composed("dyn.tile", _tile_relation, _tile, _expand_tile),
    composed("dyn.expand_dims", _expand_relation, _expand, _expand_expand, DynExpandDimsAttrs),
    composed("dyn.squeeze", _squeeze_relation, _squeeze, _expand_squeeze),
    composed("dyn.one_hot", _hot_relation, _hot, _expand_hot, AxisAttrs),
    composed("dyn.topk", _topk_relation, _topk, _expand_topk, DynTopKAttrs),
    composed("dyn.nn.pad", _pad_relation, _pad, _expand_pad),
    composed("dyn.strided_slice", _slice_relation, _slice, _expand_slice),
)
"""Every operator of this file."""
