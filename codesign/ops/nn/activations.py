"""Activations with parameters.

nn.hard_sigmoid: min(max(alpha * x + beta, 0), 1)
nn.leaky_relu:   x where x > 0, alpha * x elsewhere
nn.prelu:        x where x > 0, slope * x elsewhere; one slope for each channel (axis 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import Type
from codesign.ops.nn.bias_add import along_axis
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    FLOATS,
    HOST_FLOAT,
    attributes,
    elementwise,
    normal_axis,
    per_element,
    require_dtype,
    require_same_dtype,
    require_shape,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class HardSigmoidAttrs(Attrs):
    """Slope and value at 0."""

    alpha: float = 0.2
    beta: float = 0.5


@final
@dataclass(frozen=True, kw_only=True)
class LeakyReluAttrs(Attrs):
    """Slope below 0."""

    alpha: float = 0.01


def _hard_sigmoid_relation(call: Call, types: tuple[Type, ...]) -> Type:
    attributes(call, HardSigmoidAttrs)
    return elementwise(FLOATS)(call, types)


def _leaky_relu_relation(call: Call, types: tuple[Type, ...]) -> Type:
    attributes(call, LeakyReluAttrs)
    return elementwise(FLOATS)(call, types)


def _prelu_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, slope = static_tensors(call, types, 2)
    require_dtype(call, data, FLOATS, "data")
    require_same_dtype(call, (data, slope))
    channels = data.static_shape[normal_axis(call, 1, len(data.shape))]
    require_shape(call, slope, (channels,), "a slope")
    return data


@ieee
def _hard_sigmoid(data: Array, attrs: HardSigmoidAttrs) -> Array:
    wide = attrs.alpha * data.astype(np.float64) + attrs.beta
    return np.asarray(np.clip(wide, 0.0, 1.0)).astype(data.dtype)


@ieee
def _leaky_relu(data: Array, attrs: LeakyReluAttrs) -> Array:
    return np.asarray(np.where(data > 0, data, data * data.dtype.type(attrs.alpha)))


@ieee
def _prelu(data: Array, slope: Array) -> Array:
    return np.asarray(np.where(data > 0, data, data * along_axis(slope, 1, data.ndim)))


OPERATORS: Final = (
    Operator(
        name="nn.hard_sigmoid",
        attrs=HardSigmoidAttrs,
        relation=_hard_sigmoid_relation,
        reference=_hard_sigmoid,
        fusion=Fusion.ELEMENTWISE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(4),
    ),
    Operator(
        name="nn.leaky_relu",
        attrs=LeakyReluAttrs,
        relation=_leaky_relu_relation,
        reference=_leaky_relu,
        fusion=Fusion.ELEMENTWISE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(2),
    ),
    Operator(
        name="nn.prelu",
        relation=_prelu_relation,
        reference=_prelu,
        fusion=Fusion.BROADCAST,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(2),
    ),
)
"""Every operator of this file."""
