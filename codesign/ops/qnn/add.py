"""qnn.add: sum of two int8 or int16 tensors of one shape and different scales.

    clip(half_even(((lhs - lz) * lm + (rhs - rz) * rm) / 2**shift) + zero_point, minimum, maximum)

with multipliers of 16 bits; sums and products are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.qnn.limits import (
    FACTOR_LIMIT,
    require_codes,
    require_factor,
    require_limits,
    require_shift,
    require_zero_point,
    rounded_output,
)
from codesign.ops.relations import (
    attributes,
    per_element,
    require_same_dtype,
    require_shape,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class QAddAttrs(Attrs):
    """Zero points and multipliers of both operands; shift, zero point, limits of the result."""

    lhs_zero_point: int
    rhs_zero_point: int
    lhs_multiplier: int
    rhs_multiplier: int
    shift: int
    zero_point: int
    minimum: int = -128
    maximum: int = 127


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    lhs, rhs = static_tensors(call, types, 2)
    attrs = attributes(call, QAddAttrs)
    require_codes(call, lhs, "left operand")
    require_same_dtype(call, (lhs, rhs))
    require_shape(call, rhs, lhs.static_shape, "a right operand")
    for zero_point in (attrs.lhs_zero_point, attrs.rhs_zero_point, attrs.zero_point):
        require_zero_point(call, zero_point, lhs.dtype)
    for factor in (attrs.lhs_multiplier, attrs.rhs_multiplier):
        require_factor(call, factor, -FACTOR_LIMIT, FACTOR_LIMIT, "multiplier")
    require_shift(call, attrs.shift)
    require_limits(call, attrs.minimum, attrs.maximum, lhs.dtype)
    return TensorType(lhs.shape, lhs.dtype)


def _reference(lhs: Array, rhs: Array, attrs: QAddAttrs) -> Array:
    left = (lhs.astype(np.int64) - attrs.lhs_zero_point) * attrs.lhs_multiplier
    right = (rhs.astype(np.int64) - attrs.rhs_zero_point) * attrs.rhs_multiplier
    return rounded_output(
        left + right,
        attrs.shift,
        zero_point=attrs.zero_point,
        minimum=attrs.minimum,
        maximum=attrs.maximum,
        dtype=DType.of(lhs.dtype),
    )


OPERATOR: Final = Operator(
    name="qnn.add",
    attrs=QAddAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.BROADCAST,
    accel=OnUnit("vector"),
    work=per_element(8),
)
