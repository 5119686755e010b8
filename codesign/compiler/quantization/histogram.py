"""Counts of a tensor's values in bins of one width, whatever comes: memory is bounded."""

from __future__ import annotations

from typing import final

import numpy as np

from codesign.dtypes import Array


@final
class Histogram:
    """Values seen so far: exact least and greatest, and counts in `bins` equal bins.

    The bins cover [-2**k, 2**k); k grows by merging bins in pairs when a value lies outside, so
    that samples can come one by one. Zero always lies on the border of two bins.
    """

    def __init__(self, bins: int = 4096) -> None:
        if bins < 4 or bins % 4:
            raise ValueError(f"Histogram.bins must be a multiple of 4, not {bins}")
        self.counts = np.zeros(bins, np.int64)
        self.exponent: int | None = None
        self.least = np.inf
        self.greatest = -np.inf
        self.strangers = 0
        """How many values were NaN or infinite; they are in no bin."""

    def add(self, values: Array) -> None:
        """Count all elements of an array."""
        flat = np.asarray(values, np.float64).reshape(-1)
        is_finite = np.isfinite(flat)
        finite = flat if is_finite.all() else flat[is_finite]
        self.strangers += flat.size - finite.size
        if finite.size == 0:
            return
        self.least = min(self.least, float(finite.min()))
        self.greatest = max(self.greatest, float(finite.max()))
        self._widen(max(abs(self.least), abs(self.greatest)))
        positions = np.floor(finite / self.bin_width).astype(np.int64) + self.counts.size // 2
        self.counts += np.bincount(positions, minlength=self.counts.size)

    @property
    def half_width(self) -> float:
        """Half of the covered interval, a power of two."""
        return 0.0 if self.exponent is None else 2.0**self.exponent

    @property
    def bin_width(self) -> float:
        """Width of a bin."""
        return 2.0 * self.half_width / self.counts.size

    @property
    def is_empty(self) -> bool:
        """Whether no finite value was seen."""
        return self.exponent is None

    def centres(self) -> tuple[Array, Array]:
        """Return the centres and counts of all bins that are not empty.

        Centres are moved into [least, greatest], so that a tensor of one value is exact.
        """
        filled = np.flatnonzero(self.counts)
        middle = (filled + 0.5) * self.bin_width - self.half_width
        return np.clip(middle, self.least, self.greatest), self.counts[filled]

    def quantile(self, fraction: float) -> float:
        """Return a value that at least `fraction` of all values do not exceed, to a bin's width."""
        borders = np.cumsum(self.counts)
        position = int(np.searchsorted(borders, fraction * borders[-1]))
        edge = (position + 1) * self.bin_width - self.half_width
        return float(np.clip(edge, self.least, self.greatest))

    def outside(self, low: float, high: float) -> int:
        """Return how many values lie outside [low, high], to a bin's width."""
        middle, counts = self.centres()
        slack = self.bin_width / 2
        return int(counts[(middle < low - slack) | (middle > high + slack)].sum())

    def _widen(self, magnitude: float) -> None:
        needed = int(np.frexp(magnitude)[1]) if magnitude > 0 else -126
        if self.exponent is None:
            self.exponent = needed
        while self.exponent < needed:
            half = self.counts.size // 4
            merged = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate(
                [np.zeros(half, np.int64), merged, np.zeros(half, np.int64)]
            )
            self.exponent += 1
