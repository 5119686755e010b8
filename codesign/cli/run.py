"""`codesign run`: one network or module, one target, its outputs and what the run took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from codesign.accel.config import AccelConfig
from codesign.cli.build import executable_for
from codesign.cli.console import output, progress
from codesign.cli.gpu import Architecture, OnHost, Precision, gpu_choice
from codesign.cli.inputs import read_inputs
from codesign.cli.modules import ModuleArgument, is_relay_text
from codesign.cli.options import (
    ClockMhz,
    ConfigFile,
    InputsFile,
    Json,
    PlaceByCost,
    PresetName,
    Seed,
    Shapes,
    Simulator,
    SimulatorName,
    Target,
    TargetName,
    configuration,
    placement,
    shapes,
)
from codesign.cli.run_relay import run_relay
from codesign.dtypes import Array
from experiments.road.devices import CycleProgress, device
from experiments.road.subject import Subject, subject
from host_runtime.profile import Profile
from host_runtime.session import Session, checked_inputs

Out = Annotated[Path | None, typer.Option("--out", help="Write the outputs to this .npz file.")]


def run(
    model: ModuleArgument,
    *,
    target: Target = TargetName.CPU,
    sim: Simulator = SimulatorName.CYCLE,
    preset: PresetName = None,
    config: ConfigFile = None,
    clock_mhz: ClockMhz = None,
    place_by_cost: PlaceByCost = False,
    inputs: InputsFile = None,
    seed: Seed = 0,
    shape: Shapes = None,
    gpu: Architecture = None,
    precision: Precision = None,
    on_host: OnHost = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Run a network, or main of Relay text, once and show what it gives.

    Example: codesign run digits --target accel --preset edge --sim cycle
    Example: codesign run model.relay --inputs inputs.npz
    """
    chosen = configuration(preset, config, clock_mhz).check()
    on_gpu = gpu_choice(target, architecture=gpu, precision=precision, on_host=on_host)
    placed = placement(target, chosen, progress().print, by_cost=place_by_cost)
    if is_relay_text(model):
        return run_relay(
            model,
            target=target,
            sim=sim,
            config=chosen,
            gpu=on_gpu,
            placement=placed,
            inputs=inputs,
            seed=seed,
            out=out,
            as_json=as_json,
        )
    judged = subject(model, samples=1, seed=seed, shapes=shapes(shape))
    fed = judged.evaluation[0] if inputs is None else read_inputs(inputs, judged.model.inputs)
    executable = executable_for(judged, target, chosen, on_gpu, progress().print, placement=placed)
    # Before the simulator is built, which takes a while: wrong inputs are told at once.
    checked_inputs(executable.inputs, fed)
    simulator = device(sim.value, chosen, progress().print) if target is TargetName.ACCEL else None
    session = Session(executable, simulator)
    shown = CycleProgress(sim.value)
    results = session.run(fed, shown)
    shown.close()
    assert session.profile is not None, "a session that ran has a profile"
    if out is not None:
        np.savez(out, allow_pickle=False, **results)
    if as_json:
        print(json.dumps(_json(judged, results, session.profile, chosen), indent=2))
    else:
        _print(results, session.profile, chosen)
    return 0


def _print(results: Mapping[str, Array], profile: Profile, config: AccelConfig) -> None:
    for name, value in results.items():
        output().print(f"{name}: {value.dtype}{list(value.shape)}")
        flat = value.reshape(-1)
        for place in np.argsort(-flat, kind="stable")[:5]:
            output().print(f"  [{place}] {flat[place]:.6g}")
    for step in profile.steps:
        cycles = ""
        if step.cycles is not None:
            milliseconds = step.cycles / config.clock_mhz / 1e3
            cycles = f", {step.cycles:,} cycles = {milliseconds:.3f} ms at {config.clock_mhz} MHz"
        output().print(f"step {step.name}: {step.time_s * 1e3:.3f} ms here{cycles}")


def _json(
    judged: Subject, results: Mapping[str, Array], profile: Profile, config: AccelConfig
) -> dict[str, Any]:
    return {
        "network": judged.name,
        "outputs": {name: value.tolist() for name, value in results.items()},
        "cycles": profile.cycles,
        "clock_mhz": config.clock_mhz,
        "steps": [
            {
                "name": step.name,
                "kind": step.kind,
                "wall_time_ms": step.time_s * 1e3,
                "cycles": step.cycles,
                "counters": step.counters.as_dict() if step.counters else None,
            }
            for step in profile.steps
        ],
    }
