"""`codesign run model.relay`: main of a module of Relay text, compiled and run once.

The module is compiled as it is written: nothing is quantized. Results may be tuples and values of
data types, which print as `Cons([1, 2], Nil)` and are nested in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.cli.console import output, progress
from codesign.cli.modules import module_inputs, relay_module
from codesign.cli.options import SimulatorName, TargetName
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.driver import compile as compile_module
from codesign.compiler.partition.costs import ByCost
from codesign.diagnostics import CodesignError
from codesign.ir.executable.values import DataValue
from codesign.sim.cycle import program_cycles
from experiments.road.build import GpuChoice
from experiments.road.devices import CycleProgress, device
from host_runtime.profile import Profile
from host_runtime.session import Session, checked_inputs

_MOST_SHOWN = 8
"""Elements of a tensor that are printed."""


def run_relay(
    model: str,
    *,
    target: TargetName,
    sim: SimulatorName,
    config: AccelConfig,
    gpu: GpuChoice,
    placement: ByCost | None,
    inputs: Path | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> int:
    """Compile the module for the target, run its main, show what it gives; return the exit code.

    Raises
    ------
    CodesignError
        The text, the inputs or the target do not fit, or the run fails.
    """
    if target is TargetName.INT8:
        raise CodesignError.of(
            "Relay text is compiled as it is written, not quantized",
            help="use --target cpu: operators of qnn in the text compute on integers",
        )
    module = relay_module(model)
    executable = compile_module(
        module,
        target=target.value,
        config=config,
        placement=placement,
        tuning=None if placement is None else Tuning(program_cycles),
        **asdict(gpu),
    )
    fed = module_inputs(module, inputs, seed)
    checked_inputs(executable.inputs, fed)
    simulator = None
    if any(placement.unit in ("gemm", "vector") for placement in executable.placements):
        simulator = device(sim.value, config, progress().print)
    session = Session(executable, simulator)
    shown = CycleProgress(sim.value)
    results: Mapping[str, object] = session.run(fed, shown)
    shown.close()
    if out is not None:
        _save(out, results)
    profile = session.profile
    assert profile is not None, "a session that ran has a profile"
    if as_json:
        print(json.dumps(_json(results, profile), indent=2))
        return 0
    for name, value in results.items():
        output().print(f"{name}: {_text(value)}", markup=False)
    for step in profile.steps:
        cycles = "" if step.cycles is None else f", {step.cycles:,} cycles"
        output().print(f"step {step.name}: {step.time_s * 1e3:.3f} ms here{cycles}")
    return 0


def _save(file: Path, results: Mapping[str, object]) -> None:
    arrays = {name: each for name, each in results.items() if isinstance(each, np.ndarray)}
    others = [name for name in results if name not in arrays]
    if others:
        what = f"{', '.join(others)} is no tensor and cannot be written"
        raise CodesignError.of(what, help="leave --out away, or use --json")
    np.savez(file, allow_pickle=False, **arrays)


def _json(results: Mapping[str, object], profile: Profile) -> dict[str, Any]:
    return {
        "outputs": {name: _plain(value) for name, value in results.items()},
        "cycles": profile.cycles,
        "steps": [
            {
                "name": step.name,
                "kind": step.kind,
                "wall_time_ms": step.time_s * 1e3,
                "cycles": step.cycles,
            }
            for step in profile.steps
        ],
    }


def _plain(value: object) -> object:
    """Return a value for JSON; `["Cons", [head, tail]]` is what a constructor made."""
    match value:
        case DataValue(constructor=name, fields=fields):
            return [name, [_plain(each) for each in fields]]
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return np.asarray(value).tolist()


def _text(value: object) -> str:
    match value:
        case DataValue(constructor=name, fields=()):
            return name
        case DataValue(constructor=name, fields=fields):
            return f"{name}({', '.join(map(_text, fields))})"
        case tuple():
            return f"({', '.join(map(_text, value))})"
        case _:
            return _tensor(np.asarray(value))


def _tensor(array: np.ndarray[Any, Any]) -> str:
    if array.ndim == 0:
        return f"{array[()]}"
    shown = ", ".join(f"{each}" for each in array.reshape(-1)[:_MOST_SHOWN])
    more = ", …" if array.size > _MOST_SHOWN else ""
    return f"{array.dtype}{list(array.shape)} [{shown}{more}]"
