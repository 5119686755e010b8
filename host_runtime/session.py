"""Runs an executable: checks inputs, runs its steps in order, and says what they took."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import Array
from codesign.ir.executable.executable import AccelStep, CpuStep, Executable, Port
from codesign.sim.composed import ValueSimulator
from codesign.sim.simulator import Progress, Simulator
from host_runtime.accelerator import AcceleratorFunction
from host_runtime.cpu import CpuFunction
from host_runtime.profile import Profile, StepProfile, layer_profiles


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One run: outputs by name, what it took, and every accelerator layer's result by name."""

    outputs: Mapping[str, Array]
    profile: Profile
    tensors: Mapping[str, Array]


@final
class Session:
    """An executable that is ready to run, any number of times.

    Parameters
    ----------
    executable
        What the compiler made, or `codesign.load` read.
    device
        The simulator for steps on the accelerator; without one, the functional simulator of the
        executable's own configuration.

    Attributes
    ----------
    profile
        What the last run took; None before the first.

    Raises
    ------
    CodesignError
        The device is other hardware than the executable was compiled for.
    """

    def __init__(self, executable: Executable, device: Simulator | None = None) -> None:
        self.executable = executable
        self.profile: Profile | None = None
        self._functions: list[CpuFunction | AcceleratorFunction] = []
        for step in executable.steps:
            match step:
                case CpuStep():
                    self._functions.append(CpuFunction(step.kernel))
                case AccelStep():
                    device = device or ValueSimulator(step.kernel.config)
                    self._functions.append(AcceleratorFunction(step.kernel, device))

    def run(
        self, inputs: Mapping[str, Array], progress: Progress | None = None
    ) -> dict[str, Array]:
        """Return the outputs by name; `profile` says what the run took.

        Raises
        ------
        CodesignError
            Inputs that are missing or unknown, or have another shape or element type: all of them.
        """
        return dict(self._run(inputs, progress, keep=False).outputs)

    def trace(self, inputs: Mapping[str, Array], progress: Progress | None = None) -> Trace:
        """Return outputs, profile and the accelerator's tensors, in the order of execution."""
        return self._run(inputs, progress, keep=True)

    def _run(self, inputs: Mapping[str, Array], progress: Progress | None, *, keep: bool) -> Trace:
        executable = self.executable
        values = {**executable.constants, **checked_inputs(executable.inputs, inputs)}
        profiles: list[StepProfile] = []
        tensors: dict[str, Array] = {}
        for step, function in zip(executable.steps, self._functions, strict=True):
            arrays = tuple(values[name] for name in step.inputs)
            started = time.perf_counter()
            if isinstance(function, CpuFunction):
                results = function(*arrays)
                elapsed = time.perf_counter() - started
                profiles.append(StepProfile(name=step.name, kind="cpu", time_s=elapsed))
            else:
                run = function.run(arrays, progress)
                results = function.results(run)
                elapsed = time.perf_counter() - started
                profiles.append(
                    StepProfile(
                        name=step.name,
                        kind="accel",
                        time_s=elapsed,
                        cycles=run.outcome.cycles,
                        counters=run.outcome.counters,
                        layers=layer_profiles(run.kernel, run.outcome),
                    )
                )
                if keep:
                    tensors.update(
                        {f"{step.name}/{name}": each for name, each in run.tensors().items()}
                    )
            values.update(zip(step.outputs, results, strict=True))
        self.profile = Profile(steps=tuple(profiles))
        outputs = {
            port.name: values[name]
            for port, name in zip(executable.outputs, executable.results, strict=True)
        }
        return Trace(outputs=outputs, profile=self.profile, tensors=tensors)


def checked_inputs(ports: tuple[Port, ...], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs as arrays; raise CodesignError with every mistake in them."""
    problems: list[Problem] = []
    names = [port.name for port in ports]
    unknown = [name for name in inputs if name not in names]
    problems += [
        Problem(what=f"there is no input {name!r}", found=f"the inputs are {', '.join(names)}")
        for name in unknown
    ]
    arrays: dict[str, Array] = {}
    for port in ports:
        if port.name not in inputs:
            problems.append(Problem(what=f"input {port.name!r} is missing", found=str(port.type)))
            continue
        array = np.asarray(inputs[port.name])
        if array.dtype != port.type.dtype.numpy:
            problems.append(
                Problem(
                    what=f"input {port.name!r} has another element type",
                    found=f"found {array.dtype}, expected {port.type.dtype}",
                )
            )
        if array.shape != port.type.shape:
            problems.append(
                Problem(
                    what=f"input {port.name!r} has another shape",
                    found=f"found {array.shape}, expected {port.type.static_shape}",
                )
            )
        arrays[port.name] = np.ascontiguousarray(array)
    if problems:
        raise CodesignError(*problems)
    return arrays
