"""Rows of the study by what they were measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

from codesign.accel.config import AccelConfig
from codesign.accel.peaks import peaks
from codesign.diagnostics import CodesignError
from experiments.sweep.point import Point
from experiments.sweep.row import Row


@final
@dataclass(frozen=True, slots=True)
class Memory:
    """What lies behind the bus: bytes in a cycle, cycles of latency."""

    bytes_per_cycle: int
    latency_cycles: int

    @classmethod
    def of(cls, config: AccelConfig) -> Memory:
        """Return the memory of a configuration."""
        return cls(round(peaks(config).bytes_per_cycle), config.dram.latency_cycles)


def shape(config: AccelConfig) -> str:
    """Return the array's shape as the study writes it.

    Examples
    --------
    >>> shape(AccelConfig())
    '1x16x16'
    """
    return f"{config.batch}x{config.block_in}x{config.block_out}"


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """A network on an array with a memory, and how many samples run at once."""

    network: str
    shape: str
    memory: Memory
    samples: int


Identity: TypeAlias = tuple[str, str, int, AccelConfig | None]
"""Network, target, samples and, on the accelerator, the configuration: whatever the version."""


def identity_of_point(point: Point) -> Identity:
    """Return what a point is about."""
    config = point.config if point.target == "accel" else None
    return point.network, point.target, point.samples, config


def identity_of_row(row: Row) -> Identity:
    """Return what a row was measured on."""
    config = configuration(row) if row.target == "accel" else None
    return row.network, row.target, row.samples, config


def by_setting(rows: Sequence[Row]) -> dict[Setting, Row]:
    """Return the rows on the accelerator; one that was refused is an error with its reason."""
    found: dict[Setting, Row] = {}
    for row in rows:
        if row.target != "accel":
            continue
        if row.cycles is None:
            raise CodesignError.of(f"{row.network} was refused", found=row.reason)
        config = AccelConfig.from_toml(row.configuration)
        key = Setting(row.network, shape(config), Memory.of(config), row.samples)
        found[key] = row
    return found


def per_sample(row: Row) -> float:
    """Return the cycles of one sample of a row."""
    assert row.cycles is not None, "rows that were refused have no setting"
    return row.cycles / row.samples


def roofline_per_sample(row: Row) -> float:
    """Return the roofline's cycles of one sample of a row, in whole tiles of its array."""
    assert row.tile_roofline_cycles is not None, "rows that were refused have no setting"
    return row.tile_roofline_cycles / row.samples


def configuration(row: Row) -> AccelConfig:
    """Return the configuration that a row was measured on."""
    return AccelConfig.from_toml(row.configuration)


def on_accelerator(rows: Sequence[Row], network: str) -> list[Row]:
    """Return the rows of a network on the accelerator; one that was refused is an error."""
    found = [row for row in rows if row.target == "accel" and row.network == network]
    for row in found:
        if row.cycles is None:
            raise CodesignError.of(f"{row.network} was refused", found=row.reason)
    return found


def energy_per_sample(row: Row) -> float:
    """Return the microjoules of one sample of a row, by the table of `sweep/energy.py`."""
    assert row.energy_uj is not None, "rows that were refused have no setting"
    return row.energy_uj / row.samples


def of_one_sample(row: Row) -> Row:
    """Return a row with time and energy of one sample, to compare rows of different numbers."""
    assert row.time_ms is not None, "rows that were refused have no setting"
    milliseconds = row.time_ms / row.samples
    return replace(row, time_ms=milliseconds, energy_uj=energy_per_sample(row), samples=1)
