"""qnn.multiply: product of two integer tensors; the right one may be one number for each channel.

    clip(half_even((lhs - lz) * (rhs - rz) * multiplier / 2**shift) + zero_point, minimum, maximum)

lhs[n, c, h, w], rhs of the same shape or [n, c, 1, 1], both int8 or both int16; 0 <= multiplier <
2**23, or 2**19 for int16; products are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import Type
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.qnn.limits import (
    MULTIPLIER_LIMIT,
    WIDE_PRODUCT_LIMIT,
    require_codes,
    require_factor,
    require_limits,
    require_shift,
    require_zero_point,
    rounded_output,
)
from codesign.ops.relations import (
    attributes,
    mistake,
    per_element,
    require_same_dtype,
    spelled,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class QMultiplyAttrs(Attrs):
    """Zero points of both operands; multiplier, shift, zero point, limits of the result."""

    lhs_zero_point: int
    rhs_zero_point: int
    multiplier: int
    shift: int
    zero_point: int
    minimum: int = -128
    maximum: int = 127


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    lhs, rhs = static_tensors(call, types, 2)
    attrs = attributes(call, QMultiplyAttrs)
    require_codes(call, lhs, "left operand")
    require_same_dtype(call, (lhs, rhs))
    gate = (*lhs.shape[:2], *(1 for _ in lhs.shape[2:]))
    if rhs.shape not in (lhs.shape, gate):
        raise mistake(
            call,
            "takes a right operand of the same shape or one number a channel",
            f"found {spelled(lhs)} and {spelled(rhs)}",
        )
    for zero_point in (attrs.lhs_zero_point, attrs.rhs_zero_point, attrs.zero_point):
        require_zero_point(call, zero_point, lhs.dtype)
    limit = MULTIPLIER_LIMIT if lhs.dtype is DType.INT8 else WIDE_PRODUCT_LIMIT
    require_factor(call, attrs.multiplier, 0, limit, "multiplier")
    require_shift(call, attrs.shift)
    require_limits(call, attrs.minimum, attrs.maximum, lhs.dtype)
    return lhs


def _reference(lhs: Array, rhs: Array, attrs: QMultiplyAttrs) -> Array:
    left = lhs.astype(np.int64) - attrs.lhs_zero_point
    right = rhs.astype(np.int64) - attrs.rhs_zero_point
    return rounded_output(
        left * right * attrs.multiplier,
        attrs.shift,
        zero_point=attrs.zero_point,
        minimum=attrs.minimum,
        maximum=attrs.maximum,
        dtype=DType.of(lhs.dtype),
    )


OPERATOR: Final = Operator(
    name="qnn.multiply",
    attrs=QMultiplyAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.BROADCAST,
    accel=OnUnit("vector"),
    work=per_element(7),
)
