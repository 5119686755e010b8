"""broadcast_to: repeat a tensor along axes of length 1 and new leading axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_MOVES,
    attributes,
    broadcast,
    mistake,
    no_work,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class BroadcastToAttrs(Attrs):
    """The shape of the result."""

    shape: tuple[int, ...]


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    shape = attributes(call, BroadcastToAttrs).shape
    if any(dim < 0 for dim in shape) or broadcast(call, [data.shape, shape]) != shape:
        raise mistake(call, "cannot reach the shape", f"from {list(data.shape)} to {list(shape)}")
    return TensorType(shape, data.dtype)


def _reference(data: Array, attrs: BroadcastToAttrs) -> Array:
    return np.ascontiguousarray(np.broadcast_to(data, attrs.shape)).reshape(attrs.shape)


OPERATOR: Final = Operator(
    name="broadcast_to",
    attrs=BroadcastToAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.BROADCAST,
    accel=NotOnAccelerator(HOST_MOVES),
    work=no_work,
)
