"""Runs an executable: checks inputs, runs its steps in order, and says what they took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias, final

import numpy as np

from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import Array
from codesign.ir.executable.executable import (
    AccelStep,
    CpuStep,
    Executable,
    GpuStep,
    NativeStep,
    Port,
    Step,
)
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.sim.composed import ValueSimulator
from codesign.sim.simulator import Progress, Simulator
from host_runtime.accelerator import AcceleratorFunction
from host_runtime.cpu import CpuFunction
from host_runtime.gpu import GpuFunction
from host_runtime.native import NativeFunction
from host_runtime.profile import Profile, StepProfile, layer_profiles

_Function: TypeAlias = tuple[Step, CpuFunction | GpuFunction | AcceleratorFunction | NativeFunction]
"""A step and what runs it."""

_Timing: TypeAlias = tuple[str, float]
"""A step on the host and its seconds."""


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

    Raises
    ------
    CodesignError
        The device is other hardware than the executable was compiled for, or there is no GPU.
    """

    def __init__(self, executable: Executable, device: Simulator | None = None) -> None:
        self.executable = executable
        self._steps: tuple[StepProfile | _Timing, ...] | None = None
        self._results = tuple(
            (port.name, name)
            for port, name in zip(executable.outputs, executable.results, strict=True)
        )
        self._functions: list[_Function] = []
        for step in executable.steps:
            match step:
                case CpuStep():
                    self._functions.append((step, CpuFunction(step.kernel)))
                case GpuStep():
                    self._functions.append((step, GpuFunction(step.kernel)))
                case NativeStep():
                    self._functions.append((step, NativeFunction(step.kernel)))
                case AccelStep():
                    device = device or ValueSimulator(step.kernel.config)
                    self._functions.append((step, AcceleratorFunction(step.kernel, device)))
        self._whole = _Whole.of(executable, self._functions)

    @property
    def profile(self) -> Profile | None:
        """What the last run took; None before the first."""
        if self._steps is None:
            return None
        return Profile(
            steps=tuple(
                each
                if isinstance(each, StepProfile)
                else StepProfile(name=each[0], kind="cpu", time_s=each[1])
                for each in self._steps
            )
        )

    def run(
        self, inputs: Mapping[str, Array], progress: Progress | None = None
    ) -> dict[str, Array]:
        """Return the outputs by name; `profile` says what the run took.

        Raises
        ------
        CodesignError
            Inputs that are missing or unknown, or have another shape or element type: all of them.
        """
        return self._run(inputs, progress, None)

    def trace(self, inputs: Mapping[str, Array], progress: Progress | None = None) -> Trace:
        """Return outputs, profile and the accelerator's tensors, in the order of execution."""
        tensors: dict[str, Array] = {}
        outputs = self._run(inputs, progress, tensors)
        profile = self.profile
        assert profile is not None, "a run has just ended"
        return Trace(outputs=outputs, profile=profile, tensors=tensors)

    def _run(
        self,
        inputs: Mapping[str, Array],
        progress: Progress | None,
        tensors: dict[str, Array] | None,
    ) -> dict[str, Array]:
        if self._whole is not None:
            outputs = self._run_whole(self._whole, inputs)
            if outputs is not None:
                return outputs
        values = {
            **self.executable.constants,
            **checked_inputs(self.executable.inputs, inputs),
        }
        steps: list[StepProfile | _Timing] = []
        for step, function in self._functions:
            arrays = [values[name] for name in step.inputs]
            started = perf_counter()
            if isinstance(function, CpuFunction):
                results = function(*arrays)
                steps.append((step.name, perf_counter() - started))
            elif isinstance(function, GpuFunction):
                results = function(*arrays)
                elapsed = perf_counter() - started
                steps.append(StepProfile(name=step.name, kind="gpu", time_s=elapsed))
            elif isinstance(function, NativeFunction):
                assert isinstance(step, NativeStep), "a native function runs a native step"
                result: Any = function(*arrays)
                steps.append((step.name, perf_counter() - started))
                results = tuple(result) if step.is_split else (result,)
            else:
                run = function.run(tuple(arrays), progress)
                results = function.results(run)
                steps.append(
                    StepProfile(
                        name=step.name,
                        kind="accel",
                        time_s=perf_counter() - started,
                        cycles=run.outcome.cycles,
                        counters=run.outcome.counters,
                        layers=layer_profiles(run.kernel, run.outcome),
                    )
                )
                if tensors is not None:
                    tensors.update(
                        {f"{step.name}/{name}": each for name, each in run.tensors().items()}
                    )
            values.update(zip(step.outputs, results, strict=True))
        self._steps = tuple(steps)
        return {name: values[value] for name, value in self._results}

    def _run_whole(self, whole: _Whole, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        """Return the outputs of an executable that is one function, None where inputs are unfit."""
        if len(inputs) != len(whole.inputs):
            return None
        try:
            arrays = [inputs[name] for name in whole.inputs]
        except KeyError:
            return None
        started = perf_counter()
        results = whole.attempt(arrays)
        if results is None:
            return None
        self._steps = ((whole.name, perf_counter() - started),)
        return dict(zip(whole.outputs, results, strict=True))


@final
@dataclass(frozen=True, slots=True)
class _Whole:
    """An executable that is one native function: its name, inputs and outputs.

    `known` are number, shape and element type of the inputs whose types say all of them.
    """

    name: str
    function: CpuFunction | NativeFunction
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    known: tuple[tuple[int, tuple[int, ...], np.dtype[Any]], ...]
    is_split: bool

    @classmethod
    def of(cls, executable: Executable, functions: Sequence[_Function]) -> _Whole | None:
        """Return the executable as one function, or None where there is more to do."""
        inputs = tuple(port.name for port in executable.inputs)
        if any(_named_lengths(executable.inputs)):
            return None
        match functions:
            case [(step, (CpuFunction() | NativeFunction()) as function)] if (
                step.inputs == inputs and step.outputs == executable.results
            ):
                names = tuple(port.name for port in executable.outputs)
                known = tuple(
                    (number, port.type.static_shape, port.type.dtype.numpy)
                    for number, port in enumerate(executable.inputs)
                    if isinstance(port.type, TensorType) and UNKNOWN not in port.type.shape
                )
                is_split = isinstance(step, NativeStep) and step.is_split
                return cls(step.name, function, inputs, names, known, is_split)
            case _:
                return None

    def attempt(self, arrays: list[Array]) -> tuple[Array, ...] | None:
        """Return the results, or None where an input of known type is no plain array of it."""
        if isinstance(self.function, CpuFunction):
            return self.function.attempt(arrays)
        for number, shape, dtype in self.known:
            array = arrays[number]
            if type(array) is not np.ndarray or array.shape != shape or array.dtype != dtype:
                return None
        result: Any = self.function(*arrays)
        return tuple(result) if self.is_split else (result,)


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
        if not isinstance(port.type, TensorType) or UNKNOWN in port.type.shape:
            arrays[port.name] = inputs[port.name]  # the native function checks it
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
        arrays[port.name] = np.ascontiguousarray(array).reshape(array.shape)
    problems += _length_problems(ports, arrays)
    if problems:
        raise CodesignError(*problems)
    return arrays


def _named_lengths(ports: tuple[Port, ...]) -> Iterator[tuple[str, str, int, int]]:
    """Yield each named length of an input: its name, the input, its rank, and the axis."""
    for port in ports:
        if isinstance(port.type, TensorType):
            for axis, length in enumerate(port.type.lengths):
                if length is not None:
                    yield length.name, port.name, len(port.type.shape), axis


def _length_problems(ports: tuple[Port, ...], arrays: Mapping[str, Array]) -> Iterator[Problem]:
    """Yield a mistake where one name is two lengths; other shapes are told elsewhere."""
    known: dict[str, tuple[int, str]] = {}
    for length, name, rank, axis in _named_lengths(ports):
        shape = np.shape(arrays[name]) if isinstance(arrays.get(name), np.ndarray) else ()
        if len(shape) != rank:
            continue
        before, where = known.setdefault(length, (shape[axis], name))
        if before != shape[axis]:
            found = f"found {before} in {where!r} and {shape[axis]} in {name!r}"
            yield Problem(what=f"{length} is two lengths", found=found)
