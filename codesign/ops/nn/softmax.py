"""nn.softmax and nn.log_softmax along an axis.

    softmax(x)[i] = exp(x[i] - max x) / sum over j of exp(x[j] - max x)

Computed in float64 and rounded once.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    FLOATS,
    HOST_FLOAT,
    attributes,
    normal_axis,
    per_element,
    require_dtype,
    tensors,
)


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    require_dtype(call, data, FLOATS, "data")
    normal_axis(call, attributes(call, AxisAttrs).axis, len(data.shape))
    return data


def _shifted(data: Array, axis: int) -> Array:
    wide = data.astype(np.float64)
    return np.asarray(wide - np.max(wide, axis=axis, keepdims=True, initial=-np.inf))


@ieee
def softmax(data: Array, attrs: AxisAttrs) -> Array:
    """Return the powers of e along an axis over their sum, rounded once."""
    powers = np.exp(_shifted(data, attrs.axis))
    return np.asarray(powers / np.sum(powers, axis=attrs.axis, keepdims=True)).astype(data.dtype)


@ieee
def _log_softmax(data: Array, attrs: AxisAttrs) -> Array:
    shifted = _shifted(data, attrs.axis)
    logarithm = np.log(np.sum(np.exp(shifted), axis=attrs.axis, keepdims=True))
    return np.asarray(shifted - logarithm).astype(data.dtype)


OPERATORS: Final = tuple(
    Operator(
        name=name,
        attrs=AxisAttrs,
        relation=_relation,
        reference=reference,
        fusion=Fusion.OPAQUE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(5),
    )
    for name, reference in (("nn.softmax", softmax), ("nn.log_softmax", _log_softmax))
)
"""Every operator of this file."""
