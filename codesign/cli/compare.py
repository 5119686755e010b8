"""`codesign compare`: a network in every way of running it, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from codesign.cli.console import output, progress
from codesign.cli.options import (
    ClockMhz,
    ConfigFile,
    Json,
    ModelArgument,
    PlaceByCost,
    PresetName,
    Seed,
    Shapes,
    TargetName,
    configuration,
    placement,
    shapes,
)
from experiments.road.artefacts import write_artefacts
from experiments.road.build import build_on_cpu
from experiments.road.compare import RTL_SAMPLES
from experiments.road.compare import compare as compare_stages
from experiments.road.report import as_json as report_json
from experiments.road.report import as_tables
from experiments.road.subject import subject

Samples = Annotated[
    int, typer.Option("--samples", min=1, help="Inputs to run on the CPU and functionally.")
]
RtlSamples = Annotated[
    int,
    typer.Option("--rtl-samples", min=0, help="Inputs to run on the circuit; 0 leaves it out."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Folder for report, roofline, trace and Verilog. Default: none is written."
    ),
]


def compare(
    model: ModelArgument,
    *,
    preset: PresetName = None,
    config: ConfigFile = None,
    clock_mhz: ClockMhz = None,
    place_by_cost: PlaceByCost = False,
    samples: Samples = 16,
    rtl_samples: RtlSamples = RTL_SAMPLES,
    shape: Shapes = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Run a network in fp32 and int8 on the CPU, on both simulators and on the circuit; compare.

    Exit 1 where an integer answer differs in one element, or a cycle count in one cycle.

    Example: codesign compare digits --preset tiny
    """
    chosen = configuration(preset, config, clock_mhz).check()
    say = progress().print
    judged = subject(model, samples=samples, seed=seed, shapes=shapes(shape))
    if not judged.has_data:
        say("inputs are seeded noise, for calibration too: accuracy means nothing here")
    placed = placement(TargetName.ACCEL, chosen, say, by_cost=place_by_cost)
    result = compare_stages(
        build_on_cpu(judged, say), chosen, say, rtl_samples=rtl_samples, placement=placed
    )
    written = () if out is None else write_artefacts(result, out)
    if as_json:
        print(json.dumps(report_json(result), indent=2))
    else:
        output().print(as_tables(result))
        for path in written:
            output().print(f"wrote {path}", soft_wrap=True)
    return 0 if result.agrees else 1
