"""When every instruction ran in the RTL, read from the waves of a run.

Each unit's queue shows the start of an instruction; its end shows where the unit's last work for it
ends: the last write of gemm and vector, the last beat of load, the last answer of store.

The waves show the state after a clock edge beside the inputs before it, so an answer of the memory
stands one cycle late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from codesign.accel.isa import Sync, Unit
from codesign.accel.program import Program
from codesign.sim.simulator import Timeline

TICKS_PER_CYCLE: Final = 10
"""Time units of a cycle in the waves; the values at its start hold until the next."""

WATCHED: Final[Mapping[str, str]] = {
    "running": "control.running",
    **{f"{unit.name.lower()} starts": f"{unit.name.lower()}_queue.pop" for unit in Unit},
    "gemm ends": "gemm.last_write",
    "vector ends": "vector.done",
    "load grant": "load.walker.grant",
    "load last": "load.walker.last",
    "load burst ends": "load.bursts.pop",
    "store grant": "store.walker.grant",
    "store last": "store.walker.last",
    "store burst ends": "bus.response",
}
"""Signals below `accelerator`, by what they say."""

_SCOPE: Final = re.compile(r"\$scope module (\S+) \$end")
_VARIABLE: Final = re.compile(r"\$var wire 1 (\S+) (\S+) \$end")


@dataclass
class _Events:
    """Cycles of the machine in which something happened, in order."""

    starts: dict[Unit, list[int]] = field(default_factory=lambda: {unit: [] for unit in Unit})
    ends: dict[Unit, list[int]] = field(default_factory=lambda: {unit: [] for unit in Unit})
    is_last_burst: dict[Unit, list[bool]] = field(
        default_factory=lambda: {Unit.LOAD: [], Unit.STORE: []}
    )


def rtl_timeline(waves: Path, program: Program) -> Timeline:
    """Return the timeline of the one run that a VCD file shows."""
    events = _events(_cycles(waves.read_text(encoding="utf-8").splitlines()))
    start = np.zeros(len(program.instructions), dtype=np.int64)
    end = np.zeros_like(start)
    for unit in Unit:
        ends = iter(_instruction_ends(unit, events))
        indices = [i for i, each in enumerate(program.instructions) if each.unit is unit]
        for index, begin in zip(indices, events.starts[unit], strict=True):
            start[index] = begin
            is_sync = isinstance(program.instructions[index], Sync)
            end[index] = begin + 1 if is_sync else next(ends)
        if next(ends, None) is not None:
            raise AssertionError(f"{unit.name.lower()} ended more instructions than it started")
    return Timeline(start=start, end=end)


def _instruction_ends(unit: Unit, events: _Events) -> list[int]:
    """Return the first cycle after each instruction's last work."""
    ends = events.ends[unit]
    if unit in (Unit.GEMM, Unit.VECTOR):
        return ends
    return [end for end, last in zip(ends, events.is_last_burst[unit], strict=True) if last]


def _events(cycles: Iterator[Mapping[str, bool]]) -> _Events:
    events = _Events()
    now = 0
    for values in cycles:
        if not values["running"]:
            continue
        for unit in Unit:
            name = unit.name.lower()
            if values[f"{name} starts"]:
                events.starts[unit].append(now)
            ended = f"{name} ends" if unit in (Unit.GEMM, Unit.VECTOR) else f"{name} burst ends"
            if values[ended]:
                events.ends[unit].append(now if unit is Unit.STORE else now + 1)
            if unit in events.is_last_burst and values[f"{name} grant"]:
                events.is_last_burst[unit].append(values[f"{name} last"])
        now += 1
    return events


def _cycles(lines: Sequence[str]) -> Iterator[Mapping[str, bool]]:
    """Yield the watched signals in each cycle."""
    begin = lines.index("$enddefinitions $end")
    names = _identifiers(lines[:begin])
    values = dict.fromkeys(WATCHED, False)
    last: int | None = None
    for line in lines[begin + 1 :]:
        if line.startswith("#"):
            time = int(line[1:])
            if time % TICKS_PER_CYCLE == 0:
                if last is not None:
                    for _ in range((time - last) // TICKS_PER_CYCLE):
                        yield values
                last = time
        elif line and line[0] in "01":
            for name in names.get(line[1:], ()):
                values[name] = line[0] == "1"
    yield values


def _identifiers(header: Sequence[str]) -> dict[str, list[str]]:
    """Return the watched names of each identifier of the file."""
    scopes: list[str] = []
    wanted = {path: name for name, path in WATCHED.items()}
    found: dict[str, list[str]] = {}
    for line in header:
        if scope := _SCOPE.search(line):
            scopes.append(scope[1].partition("$")[0])
        elif "$upscope" in line:
            scopes.pop()
        elif variable := _VARIABLE.search(line):
            path = ".".join([*scopes, variable[2]]).partition("accelerator.")[2]
            if path in wanted:
                found.setdefault(variable[1], []).append(wanted[path])
    missing = set(WATCHED) - {name for names in found.values() for name in names}
    if missing:
        raise AssertionError(f"the waves lack {', '.join(sorted(WATCHED[m] for m in missing))}")
    return found
