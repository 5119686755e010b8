"""What every layer did on the accelerator: cycles, work, bytes and which roof held it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from codesign.accel.config import AccelConfig


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One layer of one run.

    `cycles` is how far the layer moved the end of the run: the layers' cycles sum to the run's.
    `least_cycles` is what the busiest of array, vector unit and memory needs; `bound` names it.
    `macs` are the network's own, without those of padding lanes.
    """

    name: str
    operator: str
    unit: str
    cycles: int
    least_cycles: int
    bound: str
    macs: int
    bytes: int

    def utilization(self, config: AccelConfig) -> float:
        """Return the share of the array's multiply-accumulates that did useful work, 0 to 1."""
        return self.macs / (self.cycles * config.macs) if self.cycles else 0.0

    @property
    def intensity(self) -> float:
        """Useful multiply-accumulates for each byte moved."""
        return self.macs / self.bytes if self.bytes else 0.0


def utilization(rows: tuple[LayerRow, ...], cycles: int, config: AccelConfig) -> float:
    """Return the share of the array's multiply-accumulates that a whole run used, 0 to 1."""
    return sum(row.macs for row in rows) / (cycles * config.macs) if cycles else 0.0


def bound(rows: tuple[LayerRow, ...]) -> str:
    """Return what binds most of the run's cycles: gemm, vector or memory."""
    cycles: dict[str, int] = {}
    for row in rows:
        cycles[row.bound] = cycles.get(row.bound, 0) + row.cycles
    return max(cycles, key=lambda name: cycles[name]) if cycles else "host"
