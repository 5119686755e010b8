"""Ranges of activations: from the values that were seen to a scale and a zero point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np

from codesign.compiler.quantization.config import QuantizationConfig, RangeMethod
from codesign.compiler.quantization.histogram import Histogram
from codesign.dtypes import Array

LEAST_CODE: Final = -128
GREATEST_CODE: Final = 127
_STEPS: Final = GREATEST_CODE - LEAST_CODE
_SMALLEST_WIDTH: Final = 1e-20
_CANDIDATES: Final = tuple(float(each) for each in np.geomspace(1.0, 1 / 64, 40))

Activation: TypeAlias = Callable[[Array], Array]


@final
@dataclass(frozen=True, slots=True)
class QuantParams:
    """value = scale * (code - zero_point); the scale is a number of float32."""

    scale: float
    zero_point: int

    def codes(self, values: Array) -> Array:
        """Return the nearest codes, in float64, saturated to int8."""
        raw = np.rint(np.asarray(values, np.float64) / self.scale) + self.zero_point
        return np.asarray(np.clip(raw, LEAST_CODE, GREATEST_CODE))

    def values(self, codes: Array) -> Array:
        """Return what codes stand for, in float64."""
        return (np.asarray(codes, np.float64) - self.zero_point) * self.scale

    def code(self, value: float) -> int:
        """Return the code of one value."""
        return int(self.codes(np.array(value)))

    @property
    def low(self) -> float:
        """Least value that has a code."""
        return (LEAST_CODE - self.zero_point) * self.scale

    @property
    def high(self) -> float:
        """Greatest value that has a code."""
        return (GREATEST_CODE - self.zero_point) * self.scale


def params_of(low: float, high: float) -> QuantParams:
    """Return the parameters that cover [low, high] and zero; zero has a code of its own."""
    low, high = min(low, 0.0), max(high, 0.0)
    width = max(high - low, _SMALLEST_WIDTH)
    scale = float(np.float32(width / _STEPS))
    zero_point = int(np.clip(np.rint(LEAST_CODE - low / scale), LEAST_CODE, GREATEST_CODE))
    return QuantParams(scale, zero_point)


def choose(
    histogram: Histogram, config: QuantizationConfig, activation: Activation | None = None
) -> QuantParams:
    """Return the parameters of a tensor.

    Where every consumer of the tensor is `activation`, the range with the least error *after* it
    is taken: what a saturating function ignores costs no codes.
    """
    if histogram.is_empty:
        return params_of(0.0, 1.0)
    least, greatest = min(histogram.least, 0.0), max(histogram.greatest, 0.0)
    if activation is not None:
        return _least_error(histogram, least, greatest, activation)
    match config.method:
        case RangeMethod.MINMAX:
            return params_of(least, greatest)
        case RangeMethod.PERCENTILE:
            tail = (1 - config.percentile / 100) / 2
            return params_of(histogram.quantile(tail), histogram.quantile(1 - tail))
        case RangeMethod.MSE:
            return _least_error(histogram, least, greatest, None)


def _least_error(
    histogram: Histogram, least: float, greatest: float, activation: Activation | None
) -> QuantParams:
    """Shrink one end and then the other, as long as the squared error falls."""
    middle, counts = histogram.centres()
    wanted = middle if activation is None else activation(middle)

    def error(params: QuantParams) -> float:
        seen = params.values(params.codes(middle))
        difference = (seen if activation is None else activation(seen)) - wanted
        return float(np.dot(counts, difference * difference))

    low, high = least, greatest
    best = error(params_of(low, high))
    for _ in range(3):
        before = (low, high)
        for shrink in _CANDIDATES:
            if (found := error(params_of(shrink * least, high))) < best:
                best, low = found, shrink * least
        for shrink in _CANDIDATES:
            if (found := error(params_of(low, shrink * greatest))) < best:
                best, high = found, shrink * greatest
        if (low, high) == before:
            break
    return params_of(low, high)
