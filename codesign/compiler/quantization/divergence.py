"""The range whose codes say most about a histogram: least Kullback-Leibler divergence.

For each threshold, magnitudes beyond it are counted at the threshold (P), and the magnitudes within
it are merged into as many levels as there are codes and spread again over the bins that held
something (Q); the threshold with the least sum of P log(P / Q) is taken.

Source: Migacz, "8-bit Inference with TensorRT" (GTC 2017).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.compiler.quantization.histogram import Histogram
from codesign.dtypes import Array, DType

_THRESHOLDS: Final = 256
"""At most so many thresholds are tried, evenly spread."""

_LEAST_SHARE: Final = 1e-4
"""What a bin that Q does not know counts for, of all."""


def least_divergence(histogram: Histogram, dtype: DType) -> float:
    """Return the magnitude up to which values should have codes.

    Where there are more codes than bins it is the greatest magnitude seen: nothing is lost.
    """
    counts = _magnitudes(histogram)
    levels = 1 << (dtype.bits - 1) if histogram.least < 0 else 1 << dtype.bits
    seen = max(-histogram.least, histogram.greatest)
    filled = int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 0
    if levels >= filled:
        return seen
    step = -(-(filled - levels) // _THRESHOLDS)
    thresholds = [*range(levels, filled, step), filled]
    best = min(thresholds, key=lambda threshold: divergence(counts, threshold, levels))
    return float(min(best * histogram.bin_width, seen))


def divergence(counts: Array, threshold: int, levels: int) -> float:
    """Return the divergence of counts by magnitude from what `levels` codes say up to a threshold.

    In natural units; infinite where nothing lies within the threshold.
    """
    inside = counts[:threshold].astype(np.float64)
    total = float(counts.sum())
    if inside.sum() == 0:
        return float("inf")
    reference = inside.copy()
    reference[-1] += total - inside.sum()
    borders = np.arange(levels + 1) * threshold // levels
    sums = np.add.reduceat(inside, borders[:-1])
    holds = inside > 0
    filled = np.add.reduceat(holds.astype(np.float64), borders[:-1])
    shares = np.divide(sums, filled, out=np.zeros_like(sums), where=filled > 0)
    spread = np.where(holds, np.repeat(shares, np.diff(borders)), 0.0)
    p, q = reference / reference.sum(), spread / spread.sum()
    is_seen = p > 0
    q = np.maximum(q, _LEAST_SHARE / len(q))
    return float(np.sum(p[is_seen] * np.log(p[is_seen] / q[is_seen])))


def _magnitudes(histogram: Histogram) -> Array:
    half = histogram.counts.size // 2
    counts = histogram.counts[half:] + histogram.counts[:half][::-1]
    # Zero has a code of its own: a tensor that is mostly zero says nothing about its range.
    counts[0] = min(counts[0], counts[1])
    return counts
