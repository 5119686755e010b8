"""Compare the Verilated RTL with the functional and the cycle simulator on one program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig, DramTiming
from codesign.accel.counters import COUNTER_NAMES
from codesign.accel.program import Program
from codesign.diagnostics import CodesignError
from codesign.sim.cycle import CycleSimulator
from codesign.sim.functional import FunctionalSimulator
from codesign.sim.rtl import Limits, Observation, RtlSimulator
from codesign.sim.simulator import program_base

CACHE = Path(__file__).resolve().parents[2] / "build" / "simulators"
LIMITS = Limits(cycles=3_000_000, seconds=60.0, watchdog_cycles=200_000)
BURSTS = 100_000


def _with(config: AccelConfig, dram: DramTiming) -> AccelConfig:
    return replace(config, dram=dram)


MEMORIES: dict[str, Callable[[AccelConfig], AccelConfig]] = {
    "ideal": lambda config: _with(config, DramTiming()),
    "latency 60": lambda config: _with(config, DramTiming(latency_cycles=60)),
    "latency 60, quarter bandwidth": lambda config: _with(
        config,
        DramTiming(latency_cycles=60, bytes_per_cycle=max(1, config.bus_bytes // 4)),
    ),
    "latency 20, rows": lambda config: _with(
        config, DramTiming(latency_cycles=20, banks=4, row_bytes=4096, miss_cycles=9)
    ),
}
"""The memories under which programs are compared, by name."""


@dataclass
class Comparison:
    """What differs, one sentence each; nothing where all agree.

    `values_differ`: a byte of memory, or the RTL did not end. `distance` sums the differences of
    cycles and of all counters; a run that did not end is as far off as it is long.
    """

    differences: list[str] = field(default_factory=list)
    cycles: int = 0
    values_differ: bool = False
    distance: int = 0


def compare(
    program: Program,
    dram: NDArray[np.uint8],
    bases: Sequence[int],
    config: AccelConfig,
    library: Path,
) -> Comparison:
    """Run a program on all three; `dram` is left alone."""
    result = Comparison()
    expected = dram.copy()
    values = FunctionalSimulator(config).run(program, expected, bases)
    timed = CycleSimulator(config).run(
        program, bases, program_base=program_base(dram), burst_log=BURSTS
    )
    found = dram.copy()
    bursts = np.zeros((BURSTS, 4), dtype=np.int64)
    try:
        outcome = RtlSimulator(config, library, LIMITS).run(
            program, found, bases, observe=Observation(bursts=bursts)
        )
    except CodesignError as error:
        result.differences.append(f"RTL: {error}")
        result.values_differ, result.distance = True, timed.cycles
        result.differences += _burst_difference(timed.bursts, bursts)
        return result
    result.cycles = timed.cycles
    result.differences += _memory_difference(expected, found, bases)
    result.values_differ = bool(result.differences)
    if outcome.cycles != timed.cycles:
        result.differences.append(f"RTL took {outcome.cycles} cycles, expected {timed.cycles}")
    counters = replace(timed.counters, saturations=values.saturations)
    for name in COUNTER_NAMES:
        ours, theirs = getattr(counters, name), getattr(outcome.counters, name)
        result.distance += abs(ours - theirs)
        if ours != theirs:
            result.differences.append(f"counter {name}: RTL has {theirs}, expected {ours}")
    result.differences += _burst_difference(timed.bursts, bursts)
    return result


def _memory_difference(
    expected: NDArray[np.uint8], found: NDArray[np.uint8], bases: Sequence[int]
) -> list[str]:
    wrong = np.flatnonzero(expected != found)
    if not wrong.size:
        return []
    first = int(wrong[0])
    segment = max(index for index, base in enumerate(bases) if base <= first)
    return [
        f"{wrong.size} bytes of memory differ, the first at {first:#x} (segment {segment} + "
        f"{first - bases[segment]:#x}): RTL has {found[first]:#x}, expected {expected[first]:#x}"
    ]


def _burst_difference(expected: NDArray[np.int64], logged: NDArray[np.int64]) -> list[str]:
    """Compare bursts; cycle 0 of the machine is the one before the first burst of the log."""
    found = logged[logged[:, 3] > 0].copy()
    if len(found):
        found[:, 0] -= found[0, 0] - 1
    for index, (one, other) in enumerate(zip(expected, found, strict=False)):
        if (one != other).any():
            return [f"burst {index} differs first: RTL {_burst(other)}, expected {_burst(one)}"]
    if len(expected) != len(found):
        return [f"RTL had {len(found)} bursts, expected {len(expected)}"]
    return []


def _burst(row: NDArray[np.int64]) -> str:
    cycle, write, address, beats = (int(value) for value in row)
    kind = "write" if write else "read"
    return f"{kind} of {beats} beats at {address:#x} arriving in cycle {cycle}"
