"""Corners of the roofline: what a configuration can do at most in a cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from codesign.accel.config import AccelConfig


@final
@dataclass(frozen=True, slots=True)
class Peaks:
    """Greatest rates of one configuration with the memory behind it.

    `ridge` is the arithmetic intensity, in MAC per byte, from which on the gemm array and not the
    memory bounds a layer.
    """

    macs_per_cycle: int
    vector_elements_per_cycle: int
    bytes_per_cycle: float
    clock_hz: int

    @property
    def ridge(self) -> float:
        """Intensity at which both bounds meet, in MAC per byte."""
        return self.macs_per_cycle / self.bytes_per_cycle

    @property
    def macs_per_second(self) -> int:
        """Peak of the gemm array."""
        return self.macs_per_cycle * self.clock_hz

    @property
    def bytes_per_second(self) -> float:
        """Peak of the memory."""
        return self.bytes_per_cycle * self.clock_hz

    def attainable(self, intensity: float) -> float:
        """Return the roofline's MAC per cycle at an intensity in MAC per byte.

        Examples
        --------
        >>> peaks(AccelConfig()).attainable(8.0)
        64.0
        """
        return min(float(self.macs_per_cycle), intensity * self.bytes_per_cycle)

    def least_cycles(self, macs: int, moved_bytes: int, vector_elements: int = 0) -> int:
        """Return the cycles that work takes at least: the greatest of the three bounds."""
        return max(
            -(-macs // self.macs_per_cycle),
            -(-vector_elements // self.vector_elements_per_cycle),
            int(-(-moved_bytes // self.bytes_per_cycle)),
        )


def peaks(config: AccelConfig) -> Peaks:
    """Return the peaks of a configuration.

    Examples
    --------
    >>> peaks(AccelConfig()).ridge
    32.0
    """
    return Peaks(
        macs_per_cycle=config.macs,
        vector_elements_per_cycle=config.vector_lanes,
        bytes_per_cycle=config.bus_bytes / config.beat_interval,
        clock_hz=config.clock_mhz * 1_000_000,
    )
