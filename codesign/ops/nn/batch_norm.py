"""nn.batch_norm: normalise each channel by given statistics (inference), axis 1.

result = (data - mean) / sqrt(variance + epsilon) * gamma + beta
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
    normal_axis,
    per_element,
    require_dtype,
    require_same_dtype,
    require_shape,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class BatchNormAttrs(Attrs):
    """What is added to the variance."""

    epsilon: float = 1e-5


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, *parameters = static_tensors(call, types, 5)
    attributes(call, BatchNormAttrs)
    require_dtype(call, data, FLOATS, "data")
    require_same_dtype(call, (data, *parameters))
    channels = data.static_shape[normal_axis(call, 1, len(data.shape))]
    for name, parameter in zip(("gamma", "beta", "mean", "variance"), parameters, strict=True):
        require_shape(call, parameter, (channels,), f"a {name}")
    return data


@ieee
def _reference(
    data: Array, gamma: Array, beta: Array, mean: Array, variance: Array, attrs: BatchNormAttrs
) -> Array:
    scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + attrs.epsilon)
    offset = beta - mean * scale
    rank = data.ndim
    result = data * along_axis(scale, 1, rank) + along_axis(offset, 1, rank)
    return np.asarray(result).astype(data.dtype)


OPERATOR: Final = Operator(
    name="nn.batch_norm",
    attrs=BatchNormAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.BROADCAST,
    accel=NotOnAccelerator(HOST_FLOAT),
    work=per_element(2),
)
