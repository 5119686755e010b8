"""road-cpu: our fp32 code for the CPU against onnxruntime, one thread, interleaved in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Final

from experiments.networks.answers import session as onnxruntime_session
from experiments.networks.packages import BUILD
from experiments.networks.registry import NETWORKS
from experiments.road.build import compile_fp32
from experiments.road.subject import subject
from experiments.rows.measurement import CONSOLE, Measurement
from host_runtime.session import Session

ROUNDS: Final = 21
"""Pairs of turns; the median of their ratios counts."""

TURN_S: Final = 0.05
"""Least time of one turn: a network of microseconds runs many times in it."""


def road_cpu() -> Measurement:
    """Return the worst network's ratio of our time to onnxruntime's."""
    worst = 0.0
    for network in NETWORKS:
        reason = network.missing()
        if reason is not None:
            CONSOLE.print(f"left out {network.name}: {reason}", markup=False)
            continue
        judged = subject(network.name, samples=1)
        inputs = dict(judged.evaluation[0])
        ours = Session(compile_fp32(judged, CONSOLE.print))
        theirs = onnxruntime_session(network.model_file(BUILD))
        ratio = _ratio(partial(ours.run, inputs), partial(theirs.run, None, inputs), network.name)
        worst = max(worst, ratio)
    return Measurement(value=worst, unit="times onnxruntime's time", digits=2)


def _ratio(ours: Callable[[], object], theirs: Callable[[], object], name: str) -> float:
    counts = [_count(each) for each in (ours, theirs)]
    pairs = [(_turn(ours, counts[0]), _turn(theirs, counts[1])) for _ in range(ROUNDS)]
    ratio = median(a / b for a, b in pairs)
    CONSOLE.print(
        f"{name}: {1e3 * median(a for a, _ in pairs):.3f} ms, onnxruntime "
        f"{1e3 * median(b for _, b in pairs):.3f} ms, ratio {ratio:.2f}"
    )
    return ratio


def _count(run: Callable[[], object]) -> int:
    for _ in range(3):
        run()
    return max(1, int(TURN_S / _turn(run, 1)))


def _turn(run: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count
