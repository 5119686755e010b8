"""Operators that read by index: take, gather_nd, gather_elements, where.

An index i in [-length, -1] means i + length; an index outside [-length, length - 1] is refused when
the operator runs, never read.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_MOVES,
    INTEGERS,
    attributes,
    broadcast,
    mistake,
    no_work,
    normal_axis,
    require_dtype,
    require_same_dtype,
    static_tensors,
    tensors,
)


def _checked(name: str, indices: Array, length: int) -> Array:
    outside = (indices < -length) | (indices >= length)
    if np.any(outside):
        wrong = indices[outside].flat[0]
        raise CodesignError.of(
            f"{name} reads outside the tensor",
            found=f"index {wrong} of an axis of length {length}",
            help=f"indices are from {-length} to {length - 1}",
        )
    return np.asarray(np.where(indices < 0, indices + length, indices))


def _take_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, indices = tensors(call, types, 2)
    require_dtype(call, indices, INTEGERS, "index tensor")
    axis = normal_axis(call, attributes(call, AxisAttrs).axis, len(data.shape))
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    return TensorType(shape, data.dtype)


def _take(data: Array, indices: Array, attrs: AxisAttrs) -> Array:
    checked = _checked("take", indices.astype(np.int64), data.shape[attrs.axis])
    return np.asarray(np.take(data, checked, axis=attrs.axis))


def _gather_elements_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, indices = static_tensors(call, types, 2)
    require_dtype(call, indices, INTEGERS, "index tensor")
    axis = normal_axis(call, attributes(call, AxisAttrs).axis, len(data.shape))
    lengths, places = data.static_shape, indices.static_shape
    fits = len(lengths) == len(places) and all(
        place <= length
        for other, (place, length) in enumerate(zip(places, lengths, strict=True))
        if other != axis
    )
    if not fits:
        raise mistake(
            call,
            "needs indices no longer than the data on the other axes",
            f"data {list(lengths)}, indices {list(places)}, axis {axis}",
        )
    return TensorType(indices.shape, data.dtype)


def _gather_elements(data: Array, indices: Array, attrs: AxisAttrs) -> Array:
    axis = attrs.axis % data.ndim
    checked = _checked("gather_elements", indices.astype(np.int64), data.shape[axis])
    covered = tuple(
        slice(None) if other == axis else slice(length)
        for other, length in enumerate(indices.shape)
    )
    return np.asarray(np.take_along_axis(data[covered], checked, axis=axis))


def _gather_nd_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, indices = static_tensors(call, types, 2)
    require_dtype(call, indices, INTEGERS, "index tensor")
    shape = indices.static_shape
    if not shape or not 1 <= shape[-1] <= len(data.shape):
        raise mistake(
            call,
            "needs index tuples of 1 to rank numbers on the last axis of the indices",
            f"indices {list(shape)}, data of rank {len(data.shape)}",
        )
    return TensorType((*shape[:-1], *data.shape[shape[-1] :]), data.dtype)


def _gather_nd(data: Array, indices: Array) -> Array:
    wide = indices.astype(np.int64)
    places = tuple(
        _checked("gather_nd", wide[..., axis], data.shape[axis])
        for axis in range(indices.shape[-1])
    )
    return np.asarray(data[places])


def _where_relation(call: Call, types: tuple[Type, ...]) -> Type:
    condition, then, otherwise = tensors(call, types, 3)
    require_dtype(call, condition, frozenset({DType.BOOL}), "condition")
    require_same_dtype(call, (then, otherwise))
    shape = broadcast(call, [condition.shape, then.shape, otherwise.shape])
    return TensorType(shape, then.dtype)


def _where(condition: Array, then: Array, otherwise: Array) -> Array:
    return np.asarray(np.where(condition, then, otherwise))


_STAYS: Final = NotOnAccelerator(HOST_MOVES)

OPERATORS: Final = (
    Operator(
        name="take",
        attrs=AxisAttrs,
        relation=_take_relation,
        reference=_take,
        fusion=Fusion.INJECTIVE,
        accel=_STAYS,
        work=no_work,
    ),
    Operator(
        name="gather_elements",
        attrs=AxisAttrs,
        relation=_gather_elements_relation,
        reference=_gather_elements,
        fusion=Fusion.INJECTIVE,
        accel=_STAYS,
        work=no_work,
    ),
    Operator(
        name="gather_nd",
        relation=_gather_nd_relation,
        reference=_gather_nd,
        fusion=Fusion.INJECTIVE,
        accel=_STAYS,
        work=no_work,
    ),
    Operator(
        name="where",
        relation=_where_relation,
        reference=_where,
        fusion=Fusion.BROADCAST,
        accel=_STAYS,
        work=no_work,
    ),
)
"""Every operator of this file."""
