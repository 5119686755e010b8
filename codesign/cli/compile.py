"""`codesign compile`: a network as one file that runs without the compiler."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from codesign.cli.build import executable_for
from codesign.cli.console import output, progress
from codesign.cli.gpu import Architecture, OnHost, Precision, gpu_choice
from codesign.cli.options import (
    ClockMhz,
    ConfigFile,
    Json,
    ModelArgument,
    PlaceByCost,
    PresetName,
    Shapes,
    Target,
    TargetName,
    configuration,
    placement,
    shapes,
)
from codesign.cli.quantization import PerTensor, PowerOfTwo, Ranges, SchemeName, quantization
from codesign.compiler.quantization import Scheme
from codesign.ir.executable.archive import save
from codesign.ir.executable.executable import Executable
from experiments.road.subject import subject

Out = Annotated[Path, typer.Option("--out", help="File to write.")]


def compile_command(
    model: ModelArgument,
    *,
    target: Target = TargetName.ACCEL,
    preset: PresetName = None,
    config: ConfigFile = None,
    clock_mhz: ClockMhz = None,
    place_by_cost: PlaceByCost = False,
    shape: Shapes = None,
    gpu: Architecture = None,
    precision: Precision = None,
    on_host: OnHost = None,
    scheme: SchemeName = Scheme.INT8_SUMS32,
    ranges: Ranges = None,
    power_of_two: PowerOfTwo = False,
    per_tensor: PerTensor = False,
    out: Out = Path("build/network.codesign"),
    as_json: Json = False,
) -> int:
    """Compile a network, say where every operator runs and why, and write one file.

    Example: codesign compile digits --target accel --preset edge --out build/digits.codesign
    """
    chosen = configuration(preset, config, clock_mhz).check()
    on_gpu = gpu_choice(target, architecture=gpu, precision=precision, on_host=on_host)
    placed = placement(target, chosen, progress().print, by_cost=place_by_cost)
    judged = subject(model, samples=1, shapes=shapes(shape))
    asked = quantization(
        judged.quantization,
        scheme=scheme,
        ranges=ranges,
        power_of_two=power_of_two,
        per_tensor=per_tensor,
    )
    judged = replace(judged, quantization=asked)
    executable = executable_for(judged, target, chosen, on_gpu, progress().print, placement=placed)
    out.parent.mkdir(parents=True, exist_ok=True)
    save(executable, out)
    if as_json:
        print(json.dumps(_json(executable, out), indent=2))
    else:
        output().print(_table(executable))
        output().print(f"wrote {out}, {out.stat().st_size:,} bytes", soft_wrap=True)
    return 0


def _table(executable: Executable) -> Table:
    table = Table("operator", "name", "runs on", "step", "why there", box=None)
    for each in executable.placements:
        table.add_row(each.operator, each.name[-40:], each.unit, each.step, each.reason)
    return table


def _json(executable: Executable, out: Path) -> dict[str, object]:
    rows = [
        {
            "operator": each.operator,
            "name": each.name,
            "unit": each.unit,
            "step": each.step,
            "reason": each.reason,
        }
        for each in executable.placements
    ]
    return {"file": str(out), "size_bytes": out.stat().st_size, "placements": rows}
