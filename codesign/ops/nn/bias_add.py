"""nn.bias_add: add one number to every element of a channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import Type
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_FLOAT,
    NUMBERS,
    attributes,
    normal_axis,
    per_element,
    require_dtype,
    require_same_dtype,
    require_shape,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class BiasAddAttrs(Attrs):
    """The axis of channels."""

    axis: int = 1


def along_axis(values: Array, axis: int, rank: int) -> Array:
    """Return a vector as a tensor that broadcasts along one axis of a tensor of this rank."""
    return values.reshape([-1 if each == axis % rank else 1 for each in range(rank)])


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, bias = static_tensors(call, types, 2)
    require_dtype(call, data, NUMBERS, "data")
    require_same_dtype(call, (data, bias))
    axis = normal_axis(call, attributes(call, BiasAddAttrs).axis, len(data.shape))
    require_shape(call, bias, (data.static_shape[axis],), "a bias")
    return data


@ieee
def _reference(data: Array, bias: Array, attrs: BiasAddAttrs) -> Array:
    return np.asarray(data + along_axis(bias, attrs.axis, data.ndim))


OPERATOR: Final = Operator(
    name="nn.bias_add",
    attrs=BiasAddAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.BROADCAST,
    accel=NotOnAccelerator(HOST_FLOAT),
    work=per_element(1),
)
