"""Operators whose result's shape is a tensor: dyn.reshape, broadcast_to, full, zeros, ones, arange.

    dyn.reshape(%x, %shape)     reshape, where one length may be -1
    dyn.broadcast_to(%x, %shape)
    dyn.full(%value, %shape)    dyn.zeros(%shape, dtype="float32")    dyn.ones(%shape, …)
    dyn.arange(%stop)           0, 1, … as many int64 as the scalar %stop says

`%shape` is a vector of integers whose length, the rank of the result, is known. Each length of the
result is `?`. Where the shape is a constant the pass dynamic-to-static makes them operators of
known shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator, Reference, Relation
from codesign.ops.relations import (
    HOST_MOVES,
    INTEGERS,
    attributes,
    mistake,
    no_work,
    require_dtype,
    require_rank,
    spelled,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class DynFilledAttrs(Attrs):
    """Element type of the result."""

    dtype: DType


def _result(call: Call, shape: TensorType, dtype: DType) -> TensorType:
    require_rank(call, shape, 1, "a shape")
    require_dtype(call, shape, INTEGERS, "shape")
    (rank,) = shape.shape
    if rank is UNKNOWN:
        raise mistake(call, "needs a shape of known length", f"found {spelled(shape)}")
    return TensorType((UNKNOWN,) * rank, dtype)


def _moving(call: Call, types: tuple[Type, ...]) -> Type:
    data, shape = tensors(call, types, 2)
    return _result(call, shape, data.dtype)


def _broadcasting(call: Call, types: tuple[Type, ...]) -> Type:
    data, shape = tensors(call, types, 2)
    result = _result(call, shape, data.dtype)
    if len(result.shape) < len(data.shape):
        found = f"a tensor of rank {len(data.shape)}, a shape of {len(result.shape)} lengths"
        raise mistake(call, "cannot reach the shape", found)
    return result


def _full_relation(call: Call, types: tuple[Type, ...]) -> Type:
    value, shape = tensors(call, types, 2)
    require_rank(call, value, 0, "a value")
    return _result(call, shape, value.dtype)


def _filled(call: Call, types: tuple[Type, ...]) -> Type:
    (shape,) = tensors(call, types, 1)
    return _result(call, shape, attributes(call, DynFilledAttrs).dtype)


def _arange_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (stop,) = tensors(call, types, 1)
    require_rank(call, stop, 0, "a number")
    require_dtype(call, stop, INTEGERS, "number")
    return TensorType((UNKNOWN,), DType.INT64)


def lengths(name: str, shape: Array) -> tuple[int, ...]:
    """Return the lengths that a tensor says.

    Raises
    ------
    CodesignError
        One of them is negative.
    """
    found = tuple(int(dim) for dim in shape)
    if any(dim < 0 for dim in found):
        what = f"{name} needs lengths that are not negative"
        raise CodesignError.of(what, found=f"found {list(found)}")
    return found


def _reshape(data: Array, shape: Array) -> Array:
    wanted = [int(dim) for dim in shape]
    try:
        return data.reshape(wanted)
    except ValueError:
        raise CodesignError.of(
            "dyn.reshape changes the number of elements",
            found=f"shape {list(data.shape)} to {wanted}",
        ) from None


def _broadcast_to(data: Array, shape: Array) -> Array:
    wanted = lengths("dyn.broadcast_to", shape)
    try:
        return np.ascontiguousarray(np.broadcast_to(data, wanted)).reshape(wanted)
    except ValueError:
        raise CodesignError.of(
            "dyn.broadcast_to cannot reach the shape",
            found=f"from {list(data.shape)} to {list(wanted)}",
        ) from None


def _full(value: Array, shape: Array) -> Array:
    return np.full(lengths("dyn.full", shape), value, value.dtype)


def _zeros(shape: Array, attrs: DynFilledAttrs) -> Array:
    return np.zeros(lengths("dyn.zeros", shape), attrs.dtype.numpy)


def _ones(shape: Array, attrs: DynFilledAttrs) -> Array:
    return np.ones(lengths("dyn.ones", shape), attrs.dtype.numpy)


def _arange(stop: Array) -> Array:
    (length,) = lengths("dyn.arange", stop.reshape(1))
    return np.arange(length, dtype=np.int64)


def _operator(
    name: str, relation: Relation, reference: Reference, attrs: type[Attrs] | None = None
) -> Operator:
    return Operator(
        name=name,
        attrs=attrs,
        relation=relation,
        reference=reference,
        fusion=Fusion.OPAQUE,
        accel=NotOnAccelerator(HOST_MOVES),
        work=no_work,
    )


OPERATORS: Final = (
    _operator("dyn.reshape", _moving, _reshape),
    _operator("dyn.broadcast_to", _broadcasting, _broadcast_to),
    _operator("dyn.full", _full_relation, _full),
    _operator("dyn.zeros", _filled, _zeros, DynFilledAttrs),
    _operator("dyn.ones", _filled, _ones, DynFilledAttrs),
    _operator("dyn.arange", _arange_relation, _arange),
)
"""Every operator of this file."""
