"""One step of an executable, ready to run: what runs it, and what it took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias, final

from codesign.dtypes import Array
from codesign.ir.executable.executable import (
    AccelStep,
    CpuStep,
    Executable,
    GpuStep,
    NativeStep,
    Step,
)
from codesign.sim.composed import ValueSimulator
from codesign.sim.simulator import Progress, Simulator
from host_runtime.accelerator import AcceleratorFunction
from host_runtime.cpu import CpuFunction
from host_runtime.gpu import GpuFunction
from host_runtime.native import NativeFunction
from host_runtime.profile import Profile, StepProfile, layer_profiles

StepFunction: TypeAlias = tuple[
    Step, CpuFunction | GpuFunction | AcceleratorFunction | NativeFunction
]
"""A step and what runs it."""

Timing: TypeAlias = tuple[str, float]
"""A step on the host and its seconds."""


@final
@dataclass(slots=True)
class Sample:
    """One run under way: its values by name, and what its steps took, by the step's place.

    `tensors` gets the accelerator's layers; None: nobody asks. `clock` tells host steps the time.
    """

    values: dict[str, Array]
    tensors: dict[str, Array] | None
    progress: Progress | None
    clock: Callable[[], float]
    taken: dict[int, StepProfile | Timing] = field(default_factory=dict)

    @property
    def steps(self) -> tuple[StepProfile | Timing, ...]:
        """What the steps took, in the executable's order."""
        return tuple(self.taken[place] for place in sorted(self.taken))


def step_functions(executable: Executable, device: Simulator | None) -> tuple[StepFunction, ...]:
    """Return what runs each step; without a device the functional simulator runs programs.

    Raises CodesignError where the device is other hardware, or there is no GPU.
    """
    functions: list[StepFunction] = []
    for step in executable.steps:
        match step:
            case CpuStep():
                functions.append((step, CpuFunction(step.kernel)))
            case GpuStep():
                functions.append((step, GpuFunction(step.kernel)))
            case NativeStep():
                functions.append((step, NativeFunction(step.kernel)))
            case AccelStep():
                device = device or ValueSimulator(step.kernel.config)
                functions.append((step, AcceleratorFunction(step.kernel, device)))
    return tuple(functions)


def run_step(loaded: StepFunction, place: int, sample: Sample) -> None:
    """Run a step on a sample's values; add its results, and what it took."""
    step, function = loaded
    arrays = [sample.values[name] for name in step.inputs]
    if isinstance(function, AcceleratorFunction):
        results = _on_accelerator(step, function, place, tuple(arrays), sample)
    elif isinstance(function, GpuFunction):
        started = perf_counter()
        results = function(*arrays)
        elapsed = perf_counter() - started
        sample.taken[place] = StepProfile(name=step.name, kind="gpu", time_s=elapsed)
    else:
        started = sample.clock()
        given: Any = function(*arrays)
        sample.taken[place] = step.name, sample.clock() - started
        is_one = isinstance(step, NativeStep) and not step.is_split
        results = (given,) if is_one else tuple(given)
    sample.values.update(zip(step.outputs, results, strict=True))


def _on_accelerator(
    step: Step,
    function: AcceleratorFunction,
    place: int,
    arrays: tuple[Array, ...],
    sample: Sample,
) -> tuple[Array, ...]:
    started = perf_counter()
    run = function.run(arrays, sample.progress)
    results = function.results(run)
    sample.taken[place] = StepProfile(
        name=step.name,
        kind="accel",
        time_s=perf_counter() - started,
        cycles=run.outcome.cycles,
        counters=run.outcome.counters,
        layers=layer_profiles(run.kernel, run.outcome),
    )
    if sample.tensors is not None:
        sample.tensors.update({f"{step.name}/{name}": each for name, each in run.tensors().items()})
    return results


def profile_of(steps: tuple[StepProfile | Timing, ...]) -> Profile:
    """Return what a run took."""
    return Profile(
        steps=tuple(
            each
            if isinstance(each, StepProfile)
            else StepProfile(name=each[0], kind="cpu", time_s=each[1])
            for each in steps
        )
    )
