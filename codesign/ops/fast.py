"""Functions that a backend may compute roughly: fast_exp fast_tanh nn.fast_softmax.

Their references are the functions themselves. A backend may be beside by 1e-5 of the true value in
float32 and float16, give exp(-87) for what is less, and infinity for exp of more than 88.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.softmax import softmax
from codesign.ops.numeric import in_double
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    FLOATS,
    HOST_FLOAT,
    attributes,
    elementwise,
    normal_axis,
    per_element,
    require_dtype,
    tensors,
)


def _unary(name: str, function: Callable[[Array], Array]) -> Operator:
    return Operator(
        name=name,
        relation=elementwise(FLOATS),
        reference=in_double(function),
        fusion=Fusion.ELEMENTWISE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(1),
    )


def _softmax_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    require_dtype(call, data, FLOATS)
    normal_axis(call, attributes(call, AxisAttrs).axis, len(data.shape))
    return data


OPERATORS: Final = (
    _unary("fast_exp", np.exp),
    _unary("fast_tanh", np.tanh),
    Operator(
        name="nn.fast_softmax",
        attrs=AxisAttrs,
        relation=_softmax_relation,
        reference=softmax,
        fusion=Fusion.OPAQUE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(5),
    ),
)
"""Every operator of this file."""
