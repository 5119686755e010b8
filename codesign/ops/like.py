"""Operators that take a shape or an element type from a second argument, never its values.

    reshape_like(%x, %y)         the elements of %x under the shape of %y
    broadcast_to_like(%x, %y)    %x repeated to the shape of %y
    cast_like(%x, %y)            %x in the element type of %y

`reshape_like` replaces the axes lhs_begin … lhs_end - 1 of %x by rhs_begin … rhs_end - 1 of %y; the
end `None` is the rank, and negative places count from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, Type
from codesign.ops.cast import OPERATOR as CAST
from codesign.ops.cast import CastAttrs
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_FLOAT,
    HOST_MOVES,
    attributes,
    broadcast,
    mistake,
    no_work,
    per_element,
    spelled,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class ReshapeLikeAttrs(Attrs):
    """Which axes of the first argument become which axes of the second."""

    lhs_begin: int = 0
    lhs_end: int | None = None
    rhs_begin: int = 0
    rhs_end: int | None = None


def _reshaped(
    attrs: ReshapeLikeAttrs, data: tuple[Dim, ...], like: tuple[Dim, ...]
) -> tuple[Dim, ...]:
    replaced = slice(attrs.lhs_begin, attrs.lhs_end)
    first, last, _ = replaced.indices(len(data))
    return (*data[:first], *like[attrs.rhs_begin : attrs.rhs_end], *data[max(first, last) :])


def _reshape_like_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, like = tensors(call, types, 2)
    shape = _reshaped(attributes(call, ReshapeLikeAttrs), data.shape, like.shape)
    old = [dim for dim in data.shape if dim is not UNKNOWN]
    new = [dim for dim in shape if dim is not UNKNOWN]
    is_known = len(old) == len(data.shape) and len(new) == len(shape)
    if is_known and prod(old) != prod(new):
        raise mistake(
            call,
            "changes the number of elements",
            f"found {spelled(data)}, the shape is [{', '.join(map(str, shape))}]",
        )
    return TensorType(shape, data.dtype)


def _broadcast_to_like_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, like = tensors(call, types, 2)
    if broadcast(call, [data.shape, like.shape]) != like.shape:
        raise mistake(call, "cannot reach the shape", f"from {spelled(data)} to {spelled(like)}")
    return TensorType(like.shape, data.dtype)


def _cast_like_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, like = tensors(call, types, 2)
    return TensorType(data.shape, like.dtype)


def _reshape_like(data: Array, like: Array, attrs: ReshapeLikeAttrs) -> Array:
    shape = _reshaped(attrs, data.shape, like.shape)
    return data.reshape([dim for dim in shape if dim is not UNKNOWN])


def _broadcast_to_like(data: Array, like: Array) -> Array:
    return np.ascontiguousarray(np.broadcast_to(data, like.shape)).reshape(like.shape)


def _cast_like(data: Array, like: Array) -> Array:
    return np.asarray(CAST.reference(data, CastAttrs(dtype=DType.of(like.dtype))))


OPERATORS: Final = (
    Operator(
        name="reshape_like",
        attrs=ReshapeLikeAttrs,
        relation=_reshape_like_relation,
        reference=_reshape_like,
        fusion=Fusion.INJECTIVE,
        accel=NotOnAccelerator(HOST_MOVES),
        work=no_work,
    ),
    Operator(
        name="broadcast_to_like",
        relation=_broadcast_to_like_relation,
        reference=_broadcast_to_like,
        fusion=Fusion.BROADCAST,
        accel=NotOnAccelerator(HOST_MOVES),
        work=no_work,
    ),
    Operator(
        name="cast_like",
        relation=_cast_like_relation,
        reference=_cast_like,
        fusion=Fusion.ELEMENTWISE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(1),
    ),
)
"""Every operator of this file."""
