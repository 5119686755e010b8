"""Real factors as integers: a multiplier and a right shift.

    factor = multiplier / 2**shift        0 ≤ multiplier < 2**bits ≤ 2**23, 0 ≤ shift ≤ 56

The decomposition is exact in binary floating point (frexp) but for one rounding, half to even, of
the multiplier to its bits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.dtypes import Array

MULTIPLIER_BITS: Final = 23
GREATEST_SHIFT: Final = 56
ADD_MULTIPLIER_LIMIT: Final = 2**15 - 1


class FactorOutOfRangeError(ValueError):
    """A factor has no multiplier: it is negative, not finite, or beyond its bits."""


def fixed_point(factors: Array, bits: int = MULTIPLIER_BITS) -> tuple[Array, Array]:
    """Return multipliers and shifts, int32, of factors that are not negative.

    A factor below 2**(bits - 57) loses bits, since the shift ends at 56.

    Raises
    ------
    FactorOutOfRangeError
        A factor is negative, not finite, or at least 2**bits - 1/2.
    """
    values = np.asarray(factors, np.float64)
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        raise FactorOutOfRangeError(f"factors {values} must be finite and not negative")
    _, exponents = np.frexp(values)
    shift = np.where(values > 0, bits - exponents.astype(np.int64), 0)
    shift = np.minimum(shift, GREATEST_SHIFT)
    multiplier = np.rint(np.ldexp(values, shift)).astype(np.int64)
    carried = multiplier == 1 << bits
    multiplier = np.where(carried, multiplier >> 1, multiplier)
    shift = np.where(carried, shift - 1, shift)
    if np.any(shift < 0):
        raise FactorOutOfRangeError(f"factor {float(values.max())} is 2**{bits} or more")
    return multiplier.astype(np.int32), shift.astype(np.int32)


def common_shift(lhs: float, rhs: float) -> tuple[int, int, int]:
    """Return two multipliers within 15 bits and their one shift, for a sum of two terms.

    Raises
    ------
    FactorOutOfRangeError
        The greater factor is above 2**15 - 1, not finite, or negative.
    """
    greatest = max(lhs, rhs)
    if not (0 < greatest <= ADD_MULTIPLIER_LIMIT) or min(lhs, rhs) < 0:
        raise FactorOutOfRangeError(f"factors {lhs} and {rhs} do not fit a sum")
    shift = min(GREATEST_SHIFT, int(np.floor(np.log2(ADD_MULTIPLIER_LIMIT / greatest))))
    while round(greatest * 2**shift) > ADD_MULTIPLIER_LIMIT:
        shift -= 1
    return round(lhs * 2**shift), round(rhs * 2**shift), shift
