"""`codesign rtl`: the Verilog of a configuration, and its simulator as a library."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from codesign.cli.console import output, progress
from codesign.cli.options import ConfigFile, Json, PresetName, configuration
from experiments.road.devices import simulator_library
from experiments.road.report import estimate_text
from hardware.generate import generate
from hardware.rtl.arm import Reset

Out = Annotated[
    Path | None, typer.Option("--out", help="Folder to write. Default: build/rtl/<preset>.")
]
WithSimulator = Annotated[
    bool, typer.Option("--simulator", help="Also build the Verilated simulator, libaccel.so.")
]

ActiveHigh = Annotated[
    bool, typer.Option("--active-high-reset", help="Reset pin areset, active high, for aresetn.")
]


def rtl(
    *,
    preset: PresetName = None,
    config: ConfigFile = None,
    out: Out = None,
    simulator: WithSimulator = False,
    active_high_reset: ActiveHigh = False,
    as_json: Json = False,
) -> int:
    """Write the Verilog of a configuration, its manifest, file list, constraints and C contract.

    Example: codesign rtl --preset edge --out build/rtl/edge
    """
    chosen = configuration(preset, config).check()
    folder = out or Path("build/rtl") / (preset or (config.stem if config else "base"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".rtl-") as temporary:
        reset = Reset.HIGH if active_high_reset else Reset.LOW
        generate(chosen, Path(temporary), reset=reset)
        if simulator:
            library = simulator_library(chosen, progress().print)
            shutil.copy2(library, temporary)
        written = _move(Path(temporary), folder)
    if as_json:
        print(json.dumps({"digest": chosen.digest, "files": [str(path) for path in written]}))
    else:
        for path in written:
            output().print(f"{path}  {path.stat().st_size:,} bytes", soft_wrap=True)
        output().print(estimate_text(chosen), soft_wrap=True)
    return 0


def _move(source: Path, target: Path) -> list[Path]:
    """Replace the files of `target` one by one; each is whole at every moment."""
    target.mkdir(exist_ok=True)
    return [path.replace(target / path.name) for path in sorted(source.iterdir())]
