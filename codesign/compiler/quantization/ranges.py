"""Ranges of activations: from the values that were seen to a scale and a zero point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from codesign.compiler.quantization.config import QuantizationConfig, RangeMethod
from codesign.compiler.quantization.divergence import least_divergence
from codesign.compiler.quantization.histogram import Histogram
from codesign.compiler.quantization.params import Grid, QuantParams
from codesign.dtypes import Array, DType

_CANDIDATES: Final = tuple(float(each) for each in np.geomspace(1.0, 1 / 64, 40))

Activation: TypeAlias = Callable[[Array], Array]


def grid_of(config: QuantizationConfig) -> Grid:
    """Return the grid that a configuration's parameters lie on."""
    return Grid(config.scheme.codes, config.power_of_two)


def choose(
    histogram: Histogram, config: QuantizationConfig, activation: Activation | None = None
) -> QuantParams:
    """Return the parameters of a tensor.

    Where every consumer of the tensor is `activation`, the range with the least error *after* it
    is taken: what a saturating function ignores costs no codes. `global` has one range for all
    tensors, which is `calibrate`'s to know: here it is `global_range`. Codes of 16 bits cover what
    was seen with the configuration's headroom, by `minmax`, `mse` and `kl` alike.
    """
    grid = grid_of(config)
    if config.method is RangeMethod.GLOBAL:
        reach = 1.0 if config.global_range is None else config.global_range
        return grid.covering(-reach, reach * grid.dtype.maximum / -grid.dtype.minimum)
    if histogram.is_empty:
        return grid.covering(0.0, 1.0)
    least, greatest = min(histogram.least, 0.0), max(histogram.greatest, 0.0)
    if grid.dtype is DType.INT16 and config.method is not RangeMethod.PERCENTILE:
        # More codes than bins: no range is worth a value that does not fit.
        return grid.covering(config.headroom * least, config.headroom * greatest)
    if activation is not None:
        return _least_error(histogram, least, greatest, grid, activation)
    match config.method:
        case RangeMethod.MINMAX:
            return grid.covering(least, greatest)
        case RangeMethod.PERCENTILE:
            tail = (1 - config.percentile / 100) / 2
            return grid.covering(histogram.quantile(tail), histogram.quantile(1 - tail))
        case RangeMethod.MSE:
            return _least_error(histogram, least, greatest, grid, None)
        case RangeMethod.KL:
            reach = least_divergence(histogram, grid.dtype)
            return grid.covering(max(least, -reach), min(greatest, reach))


def _least_error(
    histogram: Histogram,
    least: float,
    greatest: float,
    grid: Grid,
    activation: Activation | None,
) -> QuantParams:
    """Shrink one end and then the other, as long as the squared error falls."""
    middle, counts = histogram.centres()
    wanted = middle if activation is None else activation(middle)

    def error(params: QuantParams) -> float:
        seen = params.values(params.codes(middle))
        difference = (seen if activation is None else activation(seen)) - wanted
        return float(np.dot(counts, difference * difference))

    low, high = least, greatest
    best = error(grid.covering(low, high))
    for _ in range(3):
        before = (low, high)
        for shrink in _CANDIDATES:
            if (found := error(grid.covering(shrink * least, high))) < best:
                best, low = found, shrink * least
        for shrink in _CANDIDATES:
            if (found := error(grid.covering(low, shrink * greatest))) < best:
                best, high = found, shrink * greatest
        if (low, high) == before:
            break
    return grid.covering(low, high)
