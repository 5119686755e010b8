"""Two ways of computing the same thing on one thread, timed in turns of one run.

CPU time of the thread counts, so that other processes on the machine take no share of it; caches
and memory are shared with them all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final, TypeAlias, final

ROUNDS: Final = 21
"""Pairs of turns; the median of their ratios counts."""

TURN_S: Final = 0.04
"""Least time of one turn: what takes microseconds runs many times in it."""

Timed: TypeAlias = Callable[[int], float]
"""`seconds = timed(count)`: what one of `count` calls takes on average."""


@final
@dataclass(frozen=True, slots=True)
class Turns:
    """Medians of seconds of both, and of their ratio: how many times faster ours is."""

    ours_s: float
    theirs_s: float
    speedup: float


def timed(run: Callable[[], object]) -> Timed:
    """Return a clock for a function that computes on the thread that calls it."""

    def seconds(count: int) -> float:
        begin = time.thread_time()
        for _ in range(count):
            run()
        return (time.thread_time() - begin) / count

    return seconds


def in_turns(ours: Timed, theirs: Timed, rounds: int = ROUNDS) -> Turns:
    """Time both, one after the other, `rounds` times, after some calls that do not count."""
    counts = [max(1, int(TURN_S / (each(3), each(1))[1])) for each in (ours, theirs)]
    pairs = [(ours(counts[0]), theirs(counts[1])) for _ in range(rounds)]
    return Turns(
        median(a for a, _ in pairs), median(b for _, b in pairs), median(b / a for a, b in pairs)
    )
