"""In which order host and accelerator run the steps of several samples, and how long that takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, final

from codesign.ir.executable.executable import AccelStep, Executable

Side: TypeAlias = Literal["host", "accel"]

SIDES: Final[tuple[Side, ...]] = ("host", "accel")

AHEAD: Final = 3
"""Samples that are under way at once, at most: one on each side, and one that is ready."""


@final
@dataclass(frozen=True, slots=True)
class Turn:
    """One step of an executable: the side that runs it, and the steps that it needs, by place."""

    side: Side
    after: frozenset[int]


Plan: TypeAlias = tuple[Turn, ...]
"""The steps of an executable, in its order."""


@final
@dataclass(slots=True)
class Standing:
    """How far a sample is: the steps that began, and those of them that ended."""

    begun: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)


def plan_of(executable: Executable) -> Plan:
    """Return the steps with what they need of those before; a result may be named as an input."""
    makers: dict[str, int] = {}
    turns = []
    for place, step in enumerate(executable.steps):
        needed = frozenset(makers[name] for name in step.inputs if name in makers)
        turns.append(Turn("accel" if isinstance(step, AccelStep) else "host", needed))
        makers.update(dict.fromkeys(step.outputs, place))
    return tuple(turns)


def overlaps_alone(plan: Plan) -> bool:
    """Whether some step of a single sample may run while the other side runs another."""
    needed: list[set[int]] = []
    for turn in plan:
        needed.append(set(turn.after).union(*(needed[each] for each in turn.after)))
    return any(
        plan[first].side != plan[second].side and first not in needed[second]
        for second in range(len(plan))
        for first in range(second)
    )


def next_step(plan: Plan, standings: Iterable[Standing], side: Side) -> tuple[int, int] | None:
    """Return the sample and step that a side begins now, by place; None: it has to wait.

    Steps of one sample and side begin in their order; an older sample goes first.
    """
    for number, standing in enumerate(standings):
        own = (i for i, turn in enumerate(plan) if turn.side == side and i not in standing.begun)
        step = next(own, None)
        if step is not None and plan[step].after <= standing.done:
            return number, step
    return None


def makespan(plan: Plan, times: Sequence[Sequence[float]], ahead: int = AHEAD) -> float:
    """Return when the last sample is done, where `times[sample][step]` is what each step takes.

    A sample begins when less than `ahead` are under way, and samples leave in order.
    """
    standings = [Standing() for _ in times]
    now = 0.0
    ends: dict[Side, tuple[float, int, int]] = {}
    for left in range(len(times)):
        while len(standings[left].done) < len(plan):
            for side in SIDES:
                found = next_step(plan, standings[left : left + ahead], side)
                if side not in ends and found is not None:
                    sample, step = left + found[0], found[1]
                    standings[sample].begun.add(step)
                    ends[side] = now + times[sample][step], sample, step
            first: Side = min(ends, key=lambda side: ends[side][0])
            now, sample, step = ends.pop(first)
            standings[sample].done.add(step)
    return now
