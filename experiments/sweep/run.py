"""Run a plan's points on workers, write each as it comes, and go on where an earlier run ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final, final

import psutil
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from codesign.diagnostics import CodesignError, Diagnostic
from experiments.rows.measurement import CONSOLE
from experiments.sweep.measure import Measured, measure
from experiments.sweep.network import Prepared, prepare
from experiments.sweep.point import Point
from experiments.sweep.store import Store
from experiments.sweep.workers import Workers

_AHEAD: Final = 4
"""Points that wait at each worker, so that none runs dry."""


@final
@dataclass(frozen=True, slots=True)
class Forecast:
    """What the points that are left will take, from the first one."""

    points: int
    seconds_per_point: float
    bytes_per_worker: int
    workers: int

    def __str__(self) -> str:
        hours = self.points * self.seconds_per_point / self.workers / 3600
        memory = self.bytes_per_worker * self.workers / 2**30
        return (
            f"{self.points:,} points, {self.seconds_per_point:.1f} s each on {self.workers} "
            f"workers: about {hours * 60:.0f} min and {memory:.1f} GiB"
        )


def prepare_all(names: Iterable[str]) -> dict[str, Prepared]:
    """Load and quantize networks; refuse all that cannot be, together."""
    prepared: dict[str, Prepared] = {}
    problems: list[Diagnostic] = []
    for name in dict.fromkeys(names):
        try:
            prepared[name] = prepare(name, partial(_say, name))
        except CodesignError as error:
            problems += error.diagnostics
    if problems:
        raise CodesignError(*problems)
    return prepared


def _say(name: str, text: str) -> None:
    CONSOLE.print(f"{name}: {text}")


def points_left(points: Iterable[Point], store: Store) -> list[Point]:
    """Return the points that the store does not know."""
    known = store.known()
    left = [point for point in points if point.identity not in known]
    if known:
        CONSOLE.print(f"{len(known)} points are known, {len(left)} are left")
    return left


def run_points(
    left: Sequence[Point],
    store: Store,
    workers: Callable[[], Workers],
    networks: Mapping[str, Prepared],
) -> None:
    """Measure points and write each as it comes.

    The first of them is measured here and tells what the others will take.
    """
    started = time.perf_counter()
    store.add(measure(left[0], networks[left[0].network]))
    seconds = time.perf_counter() - started
    if len(left) == 1:
        return
    pool = workers()
    used = int(psutil.Process(os.getpid()).memory_info().rss)
    forecast = Forecast(len(left) - 1, seconds, used, pool.count)
    _refuse_where_memory_lacks(forecast)
    CONSOLE.print(str(forecast))
    try:
        with _progress() as progress:
            task = progress.add_task("points", total=len(left), completed=1)
            for measured in _results(left[1:], pool):
                store.add(measured)
                progress.advance(task)
    finally:
        pool.close()


def _results(points: Iterable[Point], pool: Workers) -> Iterator[Measured]:
    waiting: set[Future[Any]] = set()
    remaining = iter(points)
    while True:
        for point in islice(remaining, pool.count * _AHEAD - len(waiting)):
            waiting.add(pool.submit(point))
        if not waiting:
            return
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for each in done:
            yield each.result()


def _refuse_where_memory_lacks(forecast: Forecast) -> None:
    needed = forecast.bytes_per_worker * forecast.workers
    present = psutil.virtual_memory().available
    if needed > present:
        raise CodesignError.of(
            f"{forecast.workers} workers need about {needed / 2**30:.1f} GiB",
            found=f"{present / 2**30:.1f} GiB are free",
            help=f"use --workers {max(1, present // forecast.bytes_per_worker)}",
        )


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=CONSOLE,
    )
