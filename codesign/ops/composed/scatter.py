"""Elements put where indices say: gather, scatter_elements, scatter_nd.

    gather(%x, %indices, axis=1)                        as gather_elements
    scatter_elements(%x, %indices, %updates, axis=0, reduction="update")
    scatter_nd(%x, %indices, %updates, mode="update")

`%indices` of scatter_nd has an index tuple on its first axis, as TVM has it: an index tuple of m
numbers means a place on the first m axes. `reduction` and `mode` are `update` (of equal indices the
last one in row-major order wins), `add`, `mul`, `min`, `max`; each joins what lies there too.
An index i in [-length, -1] means i + length; one outside is refused when the operator runs.

The expansion compares every place with every index: it costs their product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import Final, Literal, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.composed.pieces import (
    attrs_of,
    composed,
    constant,
    known_shape,
    pad,
    piece,
    places,
    take,
)
from codesign.ops.gradients.expressions import (
    add,
    multiply,
    number,
    op,
    reshape,
    tensor,
    transpose,
    where,
)
from codesign.ops.indexing import OPERATORS as INDEXING
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.relations import (
    INTEGERS,
    NUMBERS,
    attributes,
    mistake,
    normal_axis,
    require_dtype,
    require_same_dtype,
    static_tensors,
)

Joining = Literal["update", "add", "mul", "min", "max"]


@final
@dataclass(frozen=True, kw_only=True)
class ScatterElementsAttrs(Attrs):
    """The axis that indices mean, and how what meets is joined."""

    axis: int = 0
    reduction: Joining = "update"


@final
@dataclass(frozen=True, kw_only=True)
class ScatterNDAttrs(Attrs):
    """How what meets is joined."""

    mode: Joining = "update"


def _joined(old: Array, new: Array, how: Joining) -> Array:
    match how:
        case "update":
            return new
        case "add":
            return np.asarray(old + new)
        case "mul":
            return np.asarray(old * new)
        case "min":
            return np.asarray(np.minimum(old, new))
        case "max":
            return np.asarray(np.maximum(old, new))


def _place(name: str, index: int, length: int) -> int:
    if not -length <= index < length:
        raise CodesignError.of(
            f"{name} writes outside the tensor",
            found=f"index {index} of an axis of length {length}",
            help=f"indices are from {-length} to {length - 1}",
        )
    return index % length


# --- along an axis ------------------------------------------------------------------------------


def _elements_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, indices, updates = static_tensors(call, types, 3)
    require_dtype(call, data, NUMBERS, "data")
    require_dtype(call, indices, INTEGERS, "index tensor")
    require_same_dtype(call, (data, updates))
    axis = normal_axis(call, attributes(call, ScatterElementsAttrs).axis, len(data.shape))
    lengths, wanted = data.static_shape, indices.static_shape
    fits = len(lengths) == len(wanted) and all(
        place <= length
        for other, (place, length) in enumerate(zip(wanted, lengths, strict=True))
        if other != axis
    )
    if not fits or updates.static_shape != wanted:
        found = f"data {list(lengths)}, indices {list(wanted)}, updates {list(updates.shape)}"
        raise mistake(call, "needs an update for each index, none beside the data", found)
    return data


def _scatter_elements(
    data: Array, indices: Array, updates: Array, attrs: ScatterElementsAttrs
) -> Array:
    result = data.astype(np.float64) if data.dtype.kind == "f" else data.copy()
    axis = attrs.axis % data.ndim
    with np.errstate(all="ignore"):
        for at in np.ndindex(*indices.shape):
            place = _place("scatter_elements", int(indices[at]), data.shape[axis])
            there = (*at[:axis], place, *at[axis + 1 :])
            result[there] = _joined(result[there], np.asarray(updates[at]), attrs.reduction)
        return result.astype(data.dtype)


def _checked(indices: Expr, length: int) -> Expr:
    """Return indices as int64 in [0, length), read from a table: wrong ones are refused there."""
    return take(constant(range(length), DType.INT64), indices, 0)


def _join(
    data: Expr, indices: Expr, updates: Expr, how: Joining, type_: TensorType, count: int
) -> Expr:
    """Return data with updates joined to what lies at their indices.

    `type_` is that of data, Tensor[(rows, length, inner)]; there are Tensor[(rows, count)] indices
    and Tensor[(rows, count, inner)] updates, count at least 1.
    """
    rows, length, inner = type_.static_shape
    here = places(length, 1, 3, DType.INT64)
    hot = op("equal", reshape(indices, (rows, 1, count)), here)
    if how == "update":
        numbered = where(hot, places(count, 2, 3, DType.INT64), constant(-1, DType.INT64))
        last = op("max", numbered, attrs=ReduceAttrs(axis=(2,)))
        is_hit = op("greater_equal", last, constant(0, DType.INT64))
        begin = constant([[row * count] for row in range(rows)], DType.INT64)
        flat = reshape(updates, (rows * count, inner))
        found = take(flat, add(op("maximum", last, constant(0, DType.INT64)), begin), 0)
        return where(reshape(is_hit, (rows, length, 1)), found, data)
    neutral = number(_neutral(how, type_.dtype), type_)
    wide = reshape(updates, (rows, 1, count, inner))
    terms = where(reshape(hot, (rows, length, count, 1)), wide, neutral)
    total = op(_REDUCTIONS[how], terms, attrs=ReduceAttrs(axis=(2,)))
    return op(_OPERATORS[how], data, total)


_REDUCTIONS: Final = {"add": "sum", "mul": "prod", "min": "min", "max": "max"}
_OPERATORS: Final = {"add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}


def _neutral(how: str, dtype: DType) -> float:
    match how:
        case "min":
            return inf if dtype.is_float else dtype.maximum
        case "max":
            return -inf if dtype.is_float else dtype.minimum
        case "mul":
            return 1
        case _:
            return 0


def _expand_elements(call: Call, types: tuple[Type, ...]) -> Expr:
    data, indices, updates = call.args
    attrs = attrs_of(call, ScatterElementsAttrs)
    shape, wanted = known_shape(call, types[0]), known_shape(call, types[1])
    if 0 in wanted or 0 in shape:
        return data
    rank = len(shape)
    axis = attrs.axis % rank
    others = [each for each in range(rank) if each != axis]
    order = [*others, axis]
    covered: Expr = data
    for each in others:
        if wanted[each] != shape[each]:
            covered = piece(covered, each, 0, wanted[each])
    rows, length, count = prod(wanted[each] for each in others), shape[axis], wanted[axis]
    type_ = TensorType((rows, length, 1), tensor(types[0]).dtype)
    joined = _join(
        reshape(transpose(covered, order), (rows, length, 1)),
        _checked(reshape(transpose(indices, order), (rows, count)), length),
        reshape(transpose(updates, order), (rows, count, 1)),
        attrs.reduction,
        type_,
        count,
    )
    part = reshape(joined, (*(wanted[each] for each in others), length))
    back = transpose(part, [order.index(each) for each in range(rank)])
    widths = [(0, 0 if each == axis else shape[each] - wanted[each]) for each in range(rank)]
    whole = pad(back, widths)
    for each in others:
        if wanted[each] != shape[each]:
            inside = [each_ < wanted[each] for each_ in range(shape[each])]
            mask = np.reshape(inside, [-1 if other == each else 1 for other in range(rank)])
            whole = where(constant(mask, DType.BOOL), whole, data)
    return whole


# --- by index tuples ----------------------------------------------------------------------------


def _nd_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, indices, updates = static_tensors(call, types, 3)
    attributes(call, ScatterNDAttrs)
    require_dtype(call, data, NUMBERS, "data")
    require_dtype(call, indices, INTEGERS, "index tensor")
    require_same_dtype(call, (data, updates))
    shape, wanted = data.static_shape, indices.static_shape
    if not wanted or not 1 <= wanted[0] <= len(shape):
        found = f"indices {list(wanted)}, data of rank {len(shape)}"
        raise mistake(call, "needs index tuples of 1 to rank numbers on the first axis", found)
    expected = (*wanted[1:], *shape[wanted[0] :])
    if updates.static_shape != expected:
        found = f"found {list(updates.shape)}, expected {list(expected)}"
        raise mistake(call, "needs an update for each index tuple", found)
    return data


def _scatter_nd(data: Array, indices: Array, updates: Array, attrs: ScatterNDAttrs) -> Array:
    result = data.astype(np.float64) if data.dtype.kind == "f" else data.copy()
    with np.errstate(all="ignore"):
        for at in np.ndindex(*indices.shape[1:]):
            there = tuple(
                _place("scatter_nd", int(index), length)
                for index, length in zip(indices[(slice(None), *at)], data.shape, strict=False)
            )
            result[there] = _joined(result[there], np.asarray(updates[at]), attrs.mode)
        return np.asarray(result.astype(data.dtype))


def _expand_nd(call: Call, types: tuple[Type, ...]) -> Expr:
    data, indices, updates = call.args
    shape, wanted = known_shape(call, types[0]), known_shape(call, types[1])
    if 0 in wanted or 0 in shape:
        return data
    depth, count = wanted[0], prod(wanted[1:])
    length, inner = prod(shape[:depth]), prod(shape[depth:])
    flat: Expr | None = None
    for axis in range(depth):
        number_ = reshape(piece(indices, 0, axis, axis + 1), (1, count))
        step = constant(prod(shape[axis + 1 : depth]), DType.INT64)
        offset = multiply(_checked(number_, shape[axis]), step)
        flat = offset if flat is None else add(flat, offset)
    assert flat is not None, "an index tuple has a number at least"
    type_ = TensorType((1, length, inner), tensor(types[0]).dtype)
    joined = _join(
        reshape(data, (1, length, inner)),
        flat,
        reshape(updates, (1, count, inner)),
        attrs_of(call, ScatterNDAttrs).mode,
        type_,
        count,
    )
    return reshape(joined, shape)


def _expand_gather(call: Call, _types: tuple[Type, ...]) -> Expr:
    return op("gather_elements", *call.args, attrs=call.attrs)


_GATHER: Final = next(each for each in INDEXING if each.name == "gather_elements")

OPERATORS: Final = (
    composed(
        "gather", _GATHER.relation, _GATHER.reference, _expand_gather, AxisAttrs, refuses=True
    ),
    composed(
        "scatter_elements",
        _elements_relation,
        _scatter_elements,
        _expand_elements,
        ScatterElementsAttrs,
        refuses=True,
    ),
    composed("scatter_nd", _nd_relation, _scatter_nd, _expand_nd, ScatterNDAttrs, refuses=True),
)
"""Every operator of this file."""
