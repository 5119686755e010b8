"""Whether a factor of floating point can be a multiplier and a shift without changing one result.

onnxruntime's rule for a sum `acc` is `half_even(float32(acc) * factor)`, the product rounded to
float32; the accelerator's is `half_even(acc * multiplier / 2**shift)`. Both never fall as `acc`
grows. So they give the same codes for every sum if each code begins at the same sum, which is
looked up for each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from codesign.accel.arithmetic import half_even_shift
from codesign.compiler.quantization.fixed_point import FactorOutOfRangeError, fixed_point
from codesign.dtypes import Array

_LEAST, _GREATEST = -(1 << 31), (1 << 31) - 1


class FixedFactors(NamedTuple):
    """Multipliers and shifts, int32, one for each channel."""

    multiplier: Array
    shift: Array


def by_float(sums: Array, factor: Array) -> Array:
    """Return sums times factors, float32, to the nearest integer, in float32."""
    return np.asarray(np.rint(sums.astype(np.float32) * factor))


def fixed_factors(factor: Array, low: int, high: int) -> FixedFactors | None:
    """Return multipliers and shifts that give what factors [c] give, within low to high.

    None where there are none: some sum of 32 bits would get another code.
    """
    try:
        multiplier, shift = fixed_point(factor)
    except FactorOutOfRangeError:
        return None
    wanted = np.arange(low + 1, high + 1, dtype=np.int64)[None]
    first = _first_sums(factor[:, None].astype(np.float32), wanted)
    for sums, is_reached in ((first, True), (first - 1, False)):
        exists = (sums >= _LEAST) & (sums <= _GREATEST)
        found = half_even_shift(sums * multiplier[:, None].astype(np.int64), shift[:, None])
        if np.any(exists & ((found >= wanted) != is_reached)):
            return None
    return FixedFactors(multiplier, shift)


def _first_sums(factor: Array, wanted: Array) -> Array:
    """Return the least sum of 32 bits that reaches each code, 2**31 where none does."""
    shape = np.broadcast_shapes(factor.shape, wanted.shape)
    low, high = np.full(shape, _LEAST), np.full(shape, _GREATEST + 1)
    for _ in range(33):
        middle = (low + high) >> 1
        reaches = by_float(middle, factor) >= wanted
        low, high = (
            np.where(reaches, low, np.minimum(middle + 1, high)),
            np.where(reaches, middle, high),
        )
    return high
