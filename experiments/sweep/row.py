"""One measured point as a row; every column's unit is in its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCost:
    """One layer of one point: its cycles, and those that its busiest unit has to spend."""

    layer: str
    operator: str
    unit: str
    cycles: int
    busiest_cycles: int
    bound: str
    macs: int
    moved_bytes: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point: what was measured, or why it could not be.

    Cycles, times, work, bytes and energy are those of one run of `samples` samples.
    `roofline_cycles` is what the network needs at least (`rows/study_bounds`), and
    `tile_roofline_cycles` what it does in whole tiles of the configuration; `host_ms` is the time
    that operators which stay on the host take on this machine, beside `time_ms`.
    `status` is `done` or `refused`; numbers are None where it is refused or a target has none.
    `busiest_cycles` is what the busiest of array, vector unit and memory has to spend in each layer
    under its tiling, summed; `busiest_percent` is its share of `cycles`.
    Resources are estimates for an ECP5; `compile_s` is wall time.
    """

    point: str
    network: str
    target: str
    configuration: str
    status: str
    reason: str = ""
    samples: int = 1
    cycles: int | None = None
    time_ms: float | None = None
    busiest_cycles: int | None = None
    busiest_percent: float | None = None
    roofline_cycles: float | None = None
    tile_roofline_cycles: float | None = None
    host_ms: float | None = None
    macs: int | None = None
    utilization_percent: float | None = None
    moved_bytes: int | None = None
    bound: str | None = None
    dsp_count: int | None = None
    block_ram_18kbit_count: int | None = None
    lut_count: int | None = None
    ff_count: int | None = None
    mac_uj: float | None = None
    sram_uj: float | None = None
    dram_uj: float | None = None
    energy_uj: float | None = None
    compile_s: float | None = None


OBJECTIVES: Final = (
    "time_ms",
    "cycles",
    "energy_uj",
    "lut_count",
    "dsp_count",
    "block_ram_18kbit_count",
    "moved_bytes",
)
"""Columns of which less is better."""

CONTINGENT: Final = frozenset({"compile_s", "host_ms"})
"""Columns that another run of the same point may fill otherwise."""
