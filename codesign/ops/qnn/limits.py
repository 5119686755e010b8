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

FACTOR_LIMIT: Final = 1 << 15
"""Multipliers of 8-bit operands are from minus this to this, exclusive."""

SHIFT_LIMIT: Final = 56
"""Shifts are from 0 to this, inclusive."""

QUANTIZED: Final = frozenset({DType.INT8})
ACCUMULATOR: Final = frozenset({DType.INT32})


def require_int8(call: Call, tensor: TensorType, what: str) -> None:
    """Refuse a tensor that is not int8."""
    require_dtype(call, tensor, QUANTIZED, what)


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
