"""What the quantized operators check alike: zero points, output limits, multipliers and shifts."""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.accel.arithmetic import half_even_shift
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import TensorType
from codesign.ops.relations import mistake, require_dtype

MULTIPLIER_LIMIT: Final = 1 << 23
"""Multipliers of 32-bit accumulators are from 0 to this, exclusive."""

WIDE_PRODUCT_LIMIT: Final = 1 << 19
"""Multipliers of products of two int16 operands are from 0 to this, exclusive: 53 bits in all."""

FACTOR_LIMIT: Final = 1 << 15
"""Multipliers of operands of a sum are from minus this to this, exclusive."""

SHIFT_LIMIT: Final = 56
"""Shifts are from 0 to this, inclusive."""

CODES: Final = frozenset({DType.INT8, DType.INT16})
"""Element types of quantized values and weights."""

SUMS: Final = frozenset({DType.INT16, DType.INT32})
"""Element types of accumulators."""

_PARAMETER: Final = frozenset({DType.INT32})
_INT8: Final = frozenset({DType.INT8})


def require_int8(call: Call, tensor: TensorType, what: str) -> None:
    """Refuse a tensor that is not int8."""
    require_dtype(call, tensor, _INT8, what)


def require_codes(call: Call, tensor: TensorType, what: str) -> None:
    """Refuse a tensor that is neither int8 nor int16."""
    require_dtype(call, tensor, CODES, what)


def require_parameter(call: Call, tensor: TensorType, what: str) -> None:
    """Refuse a bias, multiplier or shift that is not int32."""
    require_dtype(call, tensor, _PARAMETER, what)


def require_sums(call: Call, data: TensorType, weight: TensorType, dtype: DType) -> None:
    """Refuse element types that sums of products are not defined for.

    Sums of 32 bits take int8 and int16; sums of 16 bits take int8 data and weights only.
    """
    require_codes(call, data, "data")
    require_codes(call, weight, "weight")
    if dtype not in SUMS:
        raise mistake(call, "gives sums of int16 or int32", f"found {dtype}")
    if dtype is DType.INT16:
        require_int8(call, data, "data of 16-bit sums")
        require_int8(call, weight, "weight of 16-bit sums")


def require_zero_point(call: Call, zero_point: int, dtype: DType = DType.INT8) -> None:
    """Refuse a zero point that is no element."""
    if not dtype.minimum <= zero_point <= dtype.maximum:
        raise mistake(
            call,
            "has a zero point outside its element type",
            f"found {zero_point}, {dtype} is from {dtype.minimum} to {dtype.maximum}",
        )


def require_limits(call: Call, minimum: int, maximum: int, dtype: DType = DType.INT8) -> None:
    """Refuse output limits that are out of order or no elements."""
    if not dtype.minimum <= minimum <= maximum <= dtype.maximum:
        raise mistake(
            call,
            "has output limits out of order or outside its element type",
            f"found {minimum} to {maximum}, {dtype} is from {dtype.minimum} to {dtype.maximum}",
        )


def require_shift(call: Call, shift: int) -> None:
    """Refuse a shift that the number rules do not define."""
    if not 0 <= shift <= SHIFT_LIMIT:
        raise mistake(
            call, "has a shift out of range", f"found {shift}, expected 0 to {SHIFT_LIMIT}"
        )


def require_factor(call: Call, factor: int, low: int, limit: int, what: str) -> None:
    """Refuse a multiplier outside `low` to `limit`, exclusive."""
    if not low <= factor < limit:
        raise mistake(
            call, f"has a {what} out of range", f"found {factor}, expected {low} to {limit - 1}"
        )


def rounded_output(
    product: Array,
    shift: Array | int,
    *,
    zero_point: int,
    minimum: int,
    maximum: int,
    dtype: DType = DType.INT8,
) -> Array:
    """Return clip(half_even(product / 2**shift) + zero_point, minimum, maximum)."""
    shifted = half_even_shift(product, shift) + zero_point
    return np.clip(shifted, minimum, maximum).astype(dtype.numpy)
