"""qnn.requantize: int16 or int32 accumulators to small integers, by channel.

    clip(half_even((acc + bias[c]) * multiplier[c] / 2**shift[c]) + zero_point, minimum, maximum)

with one multiplier and shift for each channel, 0 <= multiplier < 2**23 and 0 <= shift <= 56; sum
and product are exact (57 bits).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.bias_add import along_axis
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.qnn.limits import (
    MULTIPLIER_LIMIT,
    SHIFT_LIMIT,
    SUMS,
    require_limits,
    require_parameter,
    require_zero_point,
    rounded_output,
)
from codesign.ops.relations import (
    INTEGERS,
    attributes,
    mistake,
    normal_axis,
    per_element,
    require_dtype,
    require_shape,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class RequantizeAttrs(Attrs):
    """The axis of channels, the result's zero point, limits and element type."""

    axis: int = 1
    zero_point: int = 0
    minimum: int = -128
    maximum: int = 127
    dtype: DType = DType.INT8


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, *parameters = static_tensors(call, types, 4)
    attrs = attributes(call, RequantizeAttrs)
    require_dtype(call, data, SUMS, "accumulator")
    if attrs.dtype not in INTEGERS:
        raise mistake(call, "gives integers", f"the result's element type is {attrs.dtype}")
    require_zero_point(call, attrs.zero_point, attrs.dtype)
    require_limits(call, attrs.minimum, attrs.maximum, attrs.dtype)
    channels = data.static_shape[normal_axis(call, attrs.axis, len(data.shape))]
    for name, parameter in zip(("bias", "multiplier", "shift"), parameters, strict=True):
        require_parameter(call, parameter, name)
        require_shape(call, parameter, (channels,), f"a {name}")
    return TensorType(data.shape, attrs.dtype)


def _check_range(name: str, values: Array, limit: int) -> None:
    wrong = values[(values < 0) | (values >= limit)]
    if wrong.size:
        raise CodesignError.of(
            f"qnn.requantize has a {name} out of range",
            found=f"found {wrong.flat[0]}, expected 0 to {limit - 1}",
        )


def _reference(
    data: Array, bias: Array, multiplier: Array, shift: Array, attrs: RequantizeAttrs
) -> Array:
    _check_range("multiplier", multiplier, MULTIPLIER_LIMIT)
    _check_range("shift", shift, SHIFT_LIMIT + 1)
    b, m, s = (
        along_axis(each.astype(np.int64), attrs.axis, data.ndim)
        for each in (bias, multiplier, shift)
    )
    return rounded_output(
        (data.astype(np.int64) + b) * m,
        s,
        zero_point=attrs.zero_point,
        minimum=attrs.minimum,
        maximum=attrs.maximum,
        dtype=attrs.dtype,
    )


OPERATOR: Final = Operator(
    name="qnn.requantize",
    attrs=RequantizeAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.BROADCAST,
    accel=OnUnit("vector"),
    work=per_element(5),
)
