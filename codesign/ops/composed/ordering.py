"""Running sums and products, sorting, and the places of the greatest.

    cumsum(%x, axis=0)  cumprod(%x, axis=0, exclusive=True)     each element joins those before it
    sort(%x, axis=-1)   argsort(%x, axis=-1, is_ascend=False)   in order; equal ones keep theirs
    topk(%x, k=3, ret_type="both")                              the k greatest, and where they lay
    searchsorted(%sorted, %values, right=False)                 where values would be put in

A NaN is greater than every number. Running sums of floating point are computed in float64 and
rounded once. Sorting compares every element with every other one of its row: it costs their square.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr, Tuple
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.composed.pieces import (
    attrs_of,
    composed,
    constant,
    known_shape,
    pad,
    piece,
    places,
)
from codesign.ops.gradients.expressions import cast, expand_dims, op, tensor, total
from codesign.ops.operator import Expansion, Operator, Reference, Value
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.relations import (
    INTEGERS,
    NUMBERS,
    attributes,
    mistake,
    normal_axis,
    per_element,
    require_dtype,
    require_same_dtype,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class RunningAttrs(Attrs):
    """The axis, and whether an element joins those before it only."""

    axis: int
    exclusive: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class SortAttrs(Attrs):
    """The axis, and whether the least comes first."""

    axis: int = -1
    is_ascend: bool = True


@final
@dataclass(frozen=True, kw_only=True)
class ArgSortAttrs(Attrs):
    """As of sort, and the element type of the places."""

    axis: int = -1
    is_ascend: bool = True
    dtype: DType = DType.INT32


@final
@dataclass(frozen=True, kw_only=True)
class TopKAttrs(Attrs):
    """How many, along which axis, what is given, and whether the least are meant."""

    k: int = 1
    axis: int = -1
    ret_type: Literal["both", "values", "indices"] = "both"
    is_ascend: bool = False
    dtype: DType = DType.INT32


@final
@dataclass(frozen=True, kw_only=True)
class SearchSortedAttrs(Attrs):
    """Whether a value is put behind equal ones, and the element type of the places."""

    right: bool = False
    dtype: DType = DType.INT32


# --- running sums and products ------------------------------------------------------------------


def _running_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    require_dtype(call, data, NUMBERS)
    normal_axis(call, attributes(call, RunningAttrs).axis, len(data.shape))
    return data


def _running_reference(is_sum: bool) -> Reference:
    def reference(data: Array, attrs: RunningAttrs) -> Array:
        kind = np.float64 if data.dtype.kind == "f" else data.dtype
        with np.errstate(all="ignore"):
            whole = (np.cumsum if is_sum else np.cumprod)(data, axis=attrs.axis, dtype=kind)
            if attrs.exclusive:
                whole = np.roll(whole, 1, axis=attrs.axis)
                first = [slice(None)] * data.ndim
                first[attrs.axis] = slice(0, 1)
                whole[tuple(first)] = 0 if is_sum else 1
            return whole.astype(data.dtype)

    return reference


def _expand_running(name: str, neutral: int) -> Expansion:
    """Join each element with the one 1, 2, 4, … places before it."""

    def expand(call: Call, types: tuple[Type, ...]) -> Expr:
        attrs, shape = attrs_of(call, RunningAttrs), known_shape(call, types[0])
        dtype, rank = tensor(types[0]).dtype, len(shape)
        axis = attrs.axis % rank
        value = cast(call.args[0], DType.FLOAT64) if dtype.is_float else call.args[0]

        def moved(each: Expr, distance: int) -> Expr:
            widths = [(distance, -distance) if i == axis else (0, 0) for i in range(rank)]
            return pad(each, widths, neutral)

        if attrs.exclusive and shape[axis]:
            value = moved(value, 1)
        distance = 1
        while distance < shape[axis]:
            value = op(name, value, moved(value, distance))
            distance *= 2
        return cast(value, dtype) if dtype.is_float else value

    return expand


def _running(name: str, operator: str, neutral: int) -> Operator:
    return composed(
        name,
        _running_relation,
        _running_reference(neutral == 0),
        _expand_running(operator, neutral),
        RunningAttrs,
        work=per_element(1),
    )


# --- sorting ------------------------------------------------------------------------------------


def _sort_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    require_dtype(call, data, NUMBERS)
    attrs = call.attrs
    assert isinstance(attrs, SortAttrs | ArgSortAttrs), "the record says so"
    normal_axis(call, attrs.axis, len(data.shape))
    return data


def _argsort_relation(call: Call, types: tuple[Type, ...]) -> Type:
    dtype = attributes(call, ArgSortAttrs).dtype
    data = tensor(_sort_relation(call, types))
    _require_integers(call, dtype)
    return TensorType(data.shape, dtype, data.lengths)


def _require_integers(call: Call, dtype: DType) -> None:
    if dtype not in INTEGERS:
        raise mistake(call, "gives integers", f"the element type of places is {dtype}")


def _order(data: Array, axis: int, *, is_ascend: bool) -> Array:
    if is_ascend:
        return np.argsort(data, axis=axis, kind="stable")
    backward = np.argsort(np.flip(data, axis), axis=axis, kind="stable")
    return np.asarray(data.shape[axis] - 1 - np.flip(backward, axis))


def _sort(data: Array, attrs: SortAttrs) -> Array:
    order = _order(data, attrs.axis, is_ascend=attrs.is_ascend)
    return np.asarray(np.take_along_axis(data, order, axis=attrs.axis))


def _argsort(data: Array, attrs: ArgSortAttrs) -> Array:
    return _order(data, attrs.axis, is_ascend=attrs.is_ascend).astype(attrs.dtype.numpy)


def _comes_before(lhs: Expr, rhs: Expr, type_: TensorType, *, is_ascend: bool) -> Expr:
    """Return whether lhs goes before rhs, whatever their places are; NaN are the greatest."""
    first, second = (lhs, rhs) if is_ascend else (rhs, lhs)
    found = op("less", first, second)
    if not type_.dtype.is_float:
        return found
    only_second = op("logical_and", op("logical_not", op("isnan", first)), op("isnan", second))
    return op("logical_or", found, only_second)


def _places_in_order(call: Call, type_: TensorType, axis: int, *, is_ascend: bool) -> Expr:
    """Return for each place of the order where its element lies, int64 along the axis.

    An element's rank is the number of those that go before it; the place of rank r is the sum of
    the places whose rank is r, of which there is one.
    """
    (data,) = call.args
    length, rank = type_.static_shape[axis], len(type_.shape)
    mine, other = expand_dims(data, axis + 1), expand_dims(data, axis)
    here = places(length, axis, rank + 1, DType.INT64)
    there = places(length, axis + 1, rank + 1, DType.INT64)
    before = _comes_before(other, mine, type_, is_ascend=is_ascend)
    after = _comes_before(mine, other, type_, is_ascend=is_ascend)
    is_equal = op("logical_not", op("logical_or", before, after))
    is_first = op("logical_and", is_equal, op("less", there, here))
    goes_first = op("logical_or", before, is_first)
    ranks = total(cast(goes_first, DType.INT64), (axis + 1,), keepdims=True)
    chosen = op("where", op("equal", ranks, there), here, constant(0, DType.INT64))
    return total(chosen, (axis,))


def _sorted_places(call: Call, types: tuple[Type, ...], axis: int, *, is_ascend: bool) -> Expr:
    shape = known_shape(call, types[0])
    type_ = TensorType(shape, tensor(types[0]).dtype)
    return _places_in_order(call, type_, axis % len(shape), is_ascend=is_ascend)


def _expand_sort(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs = attrs_of(call, SortAttrs)
    order = _sorted_places(call, types, attrs.axis, is_ascend=attrs.is_ascend)
    return op("gather_elements", call.args[0], order, attrs=AxisAttrs(axis=attrs.axis))


def _expand_argsort(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs = attrs_of(call, ArgSortAttrs)
    order = _sorted_places(call, types, attrs.axis, is_ascend=attrs.is_ascend)
    return cast(order, attrs.dtype)


def _topk_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    attrs = attributes(call, TopKAttrs)
    require_dtype(call, data, NUMBERS)
    _require_integers(call, attrs.dtype)
    axis = normal_axis(call, attrs.axis, len(data.shape))
    length = data.shape[axis]
    if attrs.k < 1 or (length is not UNKNOWN and attrs.k > length):
        raise mistake(call, "gives 1 up to all elements of an axis", f"k {attrs.k} of {length}")
    shape = (*data.shape[:axis], attrs.k, *data.shape[axis + 1 :])
    both = (TensorType(shape, data.dtype), TensorType(shape, attrs.dtype))
    match attrs.ret_type:
        case "both":
            return TupleType(both)
        case "values":
            return both[0]
        case "indices":
            return both[1]


def _topk(data: Array, attrs: TopKAttrs) -> Value:
    order = np.take(
        _order(data, attrs.axis, is_ascend=attrs.is_ascend), range(attrs.k), axis=attrs.axis
    )
    values = np.take_along_axis(data, order, axis=attrs.axis)
    places_ = order.astype(attrs.dtype.numpy)
    match attrs.ret_type:
        case "both":
            return np.asarray(values), places_
        case "values":
            return np.asarray(values)
        case "indices":
            return places_


def _expand_topk(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs = attrs_of(call, TopKAttrs)
    axis = attrs.axis % len(tensor(types[0]).shape)
    whole = _sorted_places(call, types, axis, is_ascend=attrs.is_ascend)
    order = piece(whole, axis, 0, attrs.k)
    indices = cast(order, attrs.dtype)
    if attrs.ret_type == "indices":
        return indices
    values = op("gather_elements", call.args[0], order, attrs=AxisAttrs(axis=axis))
    return values if attrs.ret_type == "values" else Tuple((values, indices))


# --- searching ----------------------------------------------------------------------------------


def _search_relation(call: Call, types: tuple[Type, ...]) -> Type:
    table, values = tensors(call, types, 2)
    dtype = attributes(call, SearchSortedAttrs).dtype
    require_dtype(call, table, NUMBERS)
    require_same_dtype(call, (table, values))
    _require_integers(call, dtype)
    if not table.shape or (len(table.shape) > 1 and len(table.shape) != len(values.shape)):
        raise mistake(call, "takes a sorted vector, or one for each row of values")
    pairs = zip(table.shape[:-1], values.shape[:-1], strict=False)
    if len(table.shape) > 1 and any(a != b and UNKNOWN not in (a, b) for a, b in pairs):
        found = f"{list(table.shape)} and {list(values.shape)}"
        raise mistake(call, "takes a sorted vector for each row of values", found)
    return TensorType(values.shape, dtype, values.lengths)


def _search(table: Array, values: Array, attrs: SearchSortedAttrs) -> Array:
    side: Literal["left", "right"] = "right" if attrs.right else "left"
    if table.ndim == 1:
        found = np.searchsorted(table, values, side=side)
        return np.asarray(found).astype(attrs.dtype.numpy)
    result = np.empty(values.shape, attrs.dtype.numpy)
    for row in np.ndindex(*values.shape[:-1]):
        result[row] = np.searchsorted(table[row], values[row], side=side)
    return result


def _expand_search(call: Call, types: tuple[Type, ...]) -> Expr:
    """Count the elements of the table that go before each value."""
    table, values = call.args
    attrs, type_ = attrs_of(call, SearchSortedAttrs), tensor(types[0])
    rank = len(tensor(types[1]).shape)
    wide = table if len(type_.shape) == 1 else expand_dims(table, rank - 1)
    each = expand_dims(values, rank)
    found = _comes_before(wide, each, type_, is_ascend=True)
    if attrs.right:
        found = op("logical_not", _comes_before(each, wide, type_, is_ascend=True))
    count = ReduceAttrs(axis=(rank,))
    return cast(op("sum", cast(found, DType.INT64), attrs=count), attrs.dtype)


OPERATORS: Final = (
    _running("cumsum", "add", 0),
    _running("cumprod", "multiply", 1),
    composed("sort", _sort_relation, _sort, _expand_sort, SortAttrs, work=per_element(1)),
    composed(
        "argsort", _argsort_relation, _argsort, _expand_argsort, ArgSortAttrs, work=per_element(1)
    ),
    composed("topk", _topk_relation, _topk, _expand_topk, TopKAttrs),
    composed("searchsorted", _search_relation, _search, _expand_search, SearchSortedAttrs),
)
"""Every operator of this file."""
