"""study-sweep: how fast points come, and whether a killed sweep goes on as if it had not been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from codesign.diagnostics import CodesignError
from experiments.rows.measurement import CONSOLE, Measurement
from experiments.sweep.plan import read_plan
from experiments.sweep.row import Row
from experiments.sweep.store import Store

_FOLDER: Final = Path(__file__).parent.parent / "sweep"
SPEED_PLAN: Final = _FOLDER / "resnet18.toml"
RESUME_PLAN: Final = _FOLDER / "example.toml"
_WARM_POINTS: Final = 4
_SECONDS: Final = 300
_DEADLINE_S: Final = 1800


def study_sweep() -> Measurement:
    """Return ResNet-18's points per hour on two processes, and rows that a kill changes.

    The plan has 1,000 points; its rate is that of the points which come in five minutes, once the
    workers run. Killed and gone on with is the sweep of the digits network.
    """
    size = read_plan(SPEED_PLAN).size
    with tempfile.TemporaryDirectory() as folder:
        rate = _points_per_hour(Path(folder))
        CONSOLE.print(f"{rate:.0f} points per hour of a plan of {size:,}")
        differing = _differing(Path(folder))
    return Measurement(value=rate, unit=f"points per hour, {differing} rows differ")


def _command(plan: Path, out: Path) -> list[str]:
    command = [sys.executable, "-m", "codesign.cli.main", "sweep", str(plan)]
    return [*command, "--workers", "2", "--out", str(out)]


def _points_per_hour(folder: Path) -> float:
    out = folder / "speed"
    process = subprocess.Popen(
        _command(SPEED_PLAN, out), start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None, "standard error is a pipe"
    try:
        for line in process.stderr:
            CONSOLE.print(line.rstrip(), markup=False)
            if "workers: about" in line:
                break
        time.sleep(_SECONDS)
    finally:
        _kill(process)
    with Store(out / "results.duckdb") as store:
        times = sorted(store.times())
    steady = times[_WARM_POINTS:]
    if len(steady) < 2:
        raise CodesignError.of("no points came", found=f"{len(times)} in {_SECONDS} s")
    return 3600 * (len(steady) - 1) / (steady[-1] - steady[0])


def _differing(folder: Path) -> int:
    killed, whole = folder / "killed", folder / "whole"
    process = subprocess.Popen(_command(RESUME_PLAN, killed), start_new_session=True)
    log = killed / "results.duckdb.wal"
    deadline = time.monotonic() + _DEADLINE_S
    while process.poll() is None and time.monotonic() < deadline:
        if log.exists() and log.stat().st_size > 50_000:
            break
        time.sleep(0.1)
    _kill(process)
    with Store(killed / "results.duckdb") as store:
        CONSOLE.print(f"killed with {len(store.known())} rows")
    for out in (killed, whole):
        subprocess.run(_command(RESUME_PLAN, out), check=True, timeout=_DEADLINE_S)
    rows = []
    for out in (killed, whole):
        with Store(out / "results.duckdb") as store:
            rows.append({row.point: _exact(row) for row in store.rows()})
    points = rows[0].keys() | rows[1].keys()
    return sum(rows[0].get(point) != rows[1].get(point) for point in points)


def _exact(row: Row) -> Row:
    """Leave out times that were measured by a clock."""
    exact = replace(row, compile_s=None, host_ms=None)
    return replace(exact, time_ms=None if row.target == "cpu" else row.time_ms)


def _kill(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
