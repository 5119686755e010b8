"""Scale and zero point of a tensor, and the grid that they lie on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType

_SMALLEST_WIDTH: Final = 1e-20


@final
@dataclass(frozen=True, slots=True)
class QuantParams:
    """value = scale * (code - zero_point); the scale is a number of float32."""

    scale: float
    zero_point: int
    dtype: DType = DType.INT8

    def codes(self, values: Array) -> Array:
        """Return the nearest codes, in float64, saturated."""
        raw = np.rint(np.asarray(values, np.float64) / self.scale) + self.zero_point
        return np.asarray(np.clip(raw, self.dtype.minimum, self.dtype.maximum))

    def values(self, codes: Array) -> Array:
        """Return what codes stand for, in float64."""
        return (np.asarray(codes, np.float64) - self.zero_point) * self.scale

    def code(self, value: float) -> int:
        """Return the code of one value."""
        return int(self.codes(np.array(value)))

    @property
    def low(self) -> float:
        """Least value that has a code."""
        return (self.dtype.minimum - self.zero_point) * self.scale

    @property
    def high(self) -> float:
        """Greatest value that has a code."""
        return (self.dtype.maximum - self.zero_point) * self.scale


@final
@dataclass(frozen=True, slots=True)
class Grid:
    """Which parameters there are.

    int8 has a zero point anywhere; that of int16 is 0. With `power_of_two`, scales are.
    """

    dtype: DType = DType.INT8
    power_of_two: bool = False

    def covering(self, low: float, high: float) -> QuantParams:
        """Return the parameters that cover [low, high] and zero; zero has a code of its own."""
        low, high = min(low, 0.0), max(high, 0.0)
        least, greatest = self.dtype.minimum, self.dtype.maximum
        if self.dtype is not DType.INT8:
            step = max(low / least, high / greatest, _SMALLEST_WIDTH)
            return QuantParams(self.scale(step), 0, self.dtype)
        scale = self.scale(max(high - low, _SMALLEST_WIDTH) / (greatest - least))
        zero_point = int(np.clip(np.rint(least - low / scale), least, greatest))
        return QuantParams(scale, zero_point, self.dtype)

    def symmetric(self, params: QuantParams) -> QuantParams:
        """Return parameters with zero point 0 that cover what others cover."""
        reach = max(-params.low, params.high)
        return QuantParams(self.scale(reach / self.dtype.maximum), 0, self.dtype)

    def scale(self, step: float) -> float:
        """Return the scale for a step of at least this size."""
        return (
            float(powers_of_two(np.array(step))) if self.power_of_two else float(np.float32(step))
        )


def powers_of_two(steps: Array) -> Array:
    """Return the least powers of two that are not below positive numbers."""
    mantissa, exponent = np.frexp(np.asarray(steps, np.float64))
    return np.asarray(np.ldexp(1.0, np.where(mantissa == 0.5, exponent - 1, exponent)))
