"""What `codesign sweep` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from experiments.sweep.plan import read_plan
from experiments.sweep.point import points
from experiments.sweep.report import write_report
from experiments.sweep.run import points_left, prepare_all, run_points
from experiments.sweep.search import check_search, search
from experiments.sweep.store import Store
from experiments.sweep.workers import Cluster, Inline, Networks, Processes, Workers


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a sweep has: points in all, those added by this run, those refused, files written."""

    points: int
    added: int
    refused: int
    files: tuple[Path, ...]


def run_sweep(plan_file: Path, out: Path, workers: int, dask: str | None) -> Summary:
    """Measure a plan's points that `out` does not hold yet; write table and report.

    Raises
    ------
    CodesignError
        Mistakes of the plan, a network that cannot be had, a table that is in use, no cluster.
    """
    plan = read_plan(plan_file)
    check_search(plan)
    with Store(out / "results.duckdb") as store:
        before = len(store.known())
        if plan.search is not None:
            search(plan, store, prepare_all(plan.networks))
        elif left := points_left(points(plan), store):
            networks = prepare_all(point.network for point in left)
            run_points(left, store, _workers(networks, workers, dask), networks)
        rows = store.rows()
        table = out / "points.parquet"
        store.export(table)
        report = write_report(plan, store, out)
    return Summary(
        points=len(rows),
        added=len(rows) - before,
        refused=sum(row.status == "refused" for row in rows),
        files=(out / "results.duckdb", table, report, out / "figures"),
    )


def _workers(networks: Networks, count: int, dask: str | None) -> Callable[[], Workers]:
    if dask is not None:
        return lambda: Cluster(networks, dask)
    if count == 0:
        return lambda: Inline(networks)
    return lambda: Processes(networks, count)
