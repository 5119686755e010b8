"""Whether a factor of floating point can be a multiplier and a shift without changing one result.

onnxruntime's rule for a sum `acc` is `half_even(float32(acc) * factor)`, the product rounded to
float32; the accelerator's is `half_even(acc * multiplier / 2**shift)`. Both never fall as `acc`
grows. So they give the same codes for every sum if each code begins at the same sum, which is
looked up for each of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from codesign.accel.arithmetic import half_even_shift
from codesign.compiler.quantization.fixed_point import FactorOutOfRangeError, fixed_point
from codesign.dtypes import Array
from codesign.ops.qnn.limits import MULTIPLIER_LIMIT

_HALF: Final = 1 << 31


class Reach(NamedTuple):
    """The least and greatest sum that can be, int64, one for each channel or one for all."""

    least: Array
    greatest: Array

    @property
    def is_within_32_bits(self) -> bool:
        """Whether no sum wraps."""
        return bool(np.all(self.least >= -_HALF) and np.all(self.greatest < _HALF))


class FixedFactors(NamedTuple):
    """Multipliers and shifts, int32, one for each channel."""

    multiplier: Array
    shift: Array


def by_float(sums: Array, factor: Array) -> Array:
    """Return sums times factors, float32, to the nearest integer, in float32."""
    return np.asarray(np.rint(sums.astype(np.float32) * factor))


def fixed_factors(factor: Array, reach: Reach, low: int, high: int) -> FixedFactors | None:
    """Return multipliers and shifts that give what factors [c] give, within low to high.

    None where there are none: some sum within `reach` would get another code.
    """
    try:
        nearest, shift = fixed_point(factor)
    except FactorOutOfRangeError:
        return None
    wanted = np.arange(low + 1, high + 1, dtype=np.int64)[None]
    first = _first_sums(factor[:, None].astype(np.float32), wanted)
    multiplier = _within(nearest, shift, first, wanted, reach)
    for sums, is_reached in ((first, True), (first - 1, False)):
        found = half_even_shift(sums * multiplier[:, None], shift[:, None])
        if np.any(_exists(sums, reach) & ((found >= wanted) != is_reached)):
            return None
    return FixedFactors(multiplier.astype(np.int32), shift)


def _within(nearest: Array, shift: Array, first: Array, wanted: Array, reach: Reach) -> Array:
    """Return the multipliers next to `nearest` whose products lie on the right side of each half.

    With the half `h` before a code, and its first sum `f`: (f - 1) m <= h 2**shift <= f m.
    """
    halves = np.ldexp(wanted - 0.5, shift[:, None])
    low, high = np.zeros(len(shift)), np.full(len(shift), float(MULTIPLIER_LIMIT - 1))
    for sums, is_reached in ((first, True), (first - 1, False)):
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = halves / sums
        is_least = _exists(sums, reach) & ((sums > 0) == is_reached) & (sums != 0)
        is_most = _exists(sums, reach) & ((sums > 0) != is_reached) & (sums != 0)
        low = np.maximum(low, np.where(is_least, bounds, 0).max(axis=1, initial=0))
        most = np.where(is_most, bounds, MULTIPLIER_LIMIT - 1)
        high = np.minimum(high, most.min(axis=1, initial=MULTIPLIER_LIMIT - 1))
    least, most = np.ceil(low).astype(np.int64), np.floor(high).astype(np.int64)
    return np.clip(nearest.astype(np.int64), least, np.maximum(least, most))


def _exists(sums: Array, reach: Reach) -> Array:
    return (sums >= reach.least[:, None]) & (sums <= reach.greatest[:, None])


def _first_sums(factor: Array, wanted: Array) -> Array:
    """Return the least sum of 32 bits that reaches each code, 2**31 where none does."""
    shape = np.broadcast_shapes(factor.shape, wanted.shape)
    low, high = np.full(shape, -_HALF), np.full(shape, _HALF)
    for _ in range(33):
        middle = (low + high) >> 1
        reaches = by_float(middle, factor) >= wanted
        low, high = (
            np.where(reaches, low, np.minimum(middle + 1, high)),
            np.where(reaches, middle, high),
        )
    return high
