"""`codesign sweep`: networks x configurations x targets into one table and one report."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Annotated

import typer

from codesign.cli.console import output
from codesign.cli.options import Json
from codesign.diagnostics import CodesignError

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The sweep as a TOML file.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of results; a sweep goes on in it.")]
Workers = Annotated[
    int, typer.Option("--workers", min=0, help="Processes; 0: this one. Default: one to a core.")
]
Scheduler = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="Run on the Dask cluster of this scheduler."),
]


def sweep(
    plan: PlanFile,
    *,
    out: Out = Path("build/sweep"),
    workers: Workers = os.cpu_count() or 1,
    dask: Scheduler = None,
    as_json: Json = False,
) -> int:
    """Measure networks on many configurations; goes on where an earlier run was ended.

    Example: codesign sweep experiments/sweep/example.toml --out build/sweep
    """
    try:
        command = importlib.import_module("experiments.sweep.command")
    except ImportError as error:
        raise CodesignError.of(
            "sweeps need packages that are not installed",
            found=str(error),
            help="pip install 'codesign[sweep]'",
        ) from None
    summary = command.run_sweep(plan, out, workers, dask)
    if as_json:
        counts = {name: getattr(summary, name) for name in ("points", "added", "refused")}
        print(json.dumps({**counts, "files": list(map(str, summary.files))}, indent=2))
        return 0
    output().print(
        f"{summary.points:,} points, {summary.added:,} of them now, {summary.refused:,} refused"
    )
    for file in summary.files:
        output().print(f"wrote {file}", soft_wrap=True)
    return 0
