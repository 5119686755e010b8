"""`codesign trace`: when every instruction ran, for Perfetto or chrome://tracing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from codesign.cli.console import output, progress
from codesign.cli.options import (
    ConfigFile,
    Json,
    ModelArgument,
    PresetName,
    Shapes,
    configuration,
    shapes,
)
from experiments.road.artefacts import program_traces
from experiments.road.build import compile_accel, quantize_subject
from experiments.road.devices import Recorder, device
from experiments.road.subject import subject
from host_runtime.session import Session

Out = Annotated[Path, typer.Option("--out", help="Folder to write trace0.json, … to.")]


def trace(
    model: ModelArgument,
    *,
    preset: PresetName = None,
    config: ConfigFile = None,
    shape: Shapes = None,
    out: Out = Path("build/trace"),
    as_json: Json = False,
) -> int:
    """Write the timeline of a network's run on the cycle simulator, one file to a program.

    Example: codesign trace digits --preset edge --out build/trace
    """
    chosen = configuration(preset, config).check()
    judged = subject(model, samples=1, shapes=shapes(shape))
    say = progress().print
    executable = compile_accel(judged, quantize_subject(judged, say), chosen, say)
    recorder = Recorder(device("cycle", chosen, say))
    Session(executable, recorder).run(judged.evaluation[0])
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for index, text in enumerate(program_traces(executable, [run for _, run in recorder.runs])):
        path = out / f"trace{index}.json"
        path.write_text(text, encoding="utf-8")
        files.append(str(path))
    if as_json:
        print(json.dumps({"files": files}))
    else:
        output().print("\n".join(files), soft_wrap=True)
    return 0
