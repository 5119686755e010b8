"""Runs an executable: checks inputs, runs its steps when they can, and says what they took."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any, final

import numpy as np

from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import Array
from codesign.ir.executable.executable import Executable, NativeStep, Port
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.sim.simulator import Progress, Simulator
from host_runtime.cpu import CpuFunction
from host_runtime.native import NativeFunction
from host_runtime.overlap import overlapped
from host_runtime.profile import PipelineProfile, Profile, StepProfile
from host_runtime.schedule import overlaps_alone, plan_of
from host_runtime.steps import Sample, StepFunction, Timing, profile_of, run_step, step_functions


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
        self._steps: tuple[StepProfile | Timing, ...] | None = None
        self._many: list[Profile] | None = None
        self._results = tuple(
            (port.name, name)
            for port, name in zip(executable.outputs, executable.results, strict=True)
        )
        self._functions = step_functions(executable, device)
        self._plan = plan_of(executable)
        self._overlaps = overlaps_alone(self._plan)
        self._whole = _Whole.of(executable, self._functions)

    @property
    def profile(self) -> Profile | None:
        """What the last run took; None before the first."""
        return None if self._steps is None else profile_of(self._steps)

    @property
    def pipeline(self) -> PipelineProfile | None:
        """What the samples of the last `run_many` or `trace_many` took, as far as it came."""
        if self._many is None:
            return None
        return PipelineProfile(plan=self._plan, samples=tuple(self._many))

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
        return Trace(outputs=outputs, profile=self._last_profile(), tensors=tensors)

    def run_many(
        self, samples: Iterable[Mapping[str, Array]], progress: Progress | None = None
    ) -> Iterator[dict[str, Array]]:
        """Yield the outputs of each sample, in order; `pipeline` says what they took.

        Host and accelerator work at the same time, on steps of one sample or of several; at most
        `AHEAD` samples are under way. No thread outlives the iterator.

        Raises
        ------
        CodesignError
            The inputs of a sample are wrong, as `run` says.
        """
        with closing(self._stream(samples, progress, traced=False)) as traces:
            for outputs, _ in traces:
                yield outputs

    def trace_many(
        self, samples: Iterable[Mapping[str, Array]], progress: Progress | None = None
    ) -> Iterator[Trace]:
        """Yield a trace of each sample, as `run_many` does its outputs."""
        with closing(self._stream(samples, progress, traced=True)) as traces:
            for outputs, tensors in traces:
                yield Trace(outputs=outputs, profile=self._last_profile(), tensors=tensors)

    def _stream(
        self, samples: Iterable[Mapping[str, Array]], progress: Progress | None, *, traced: bool
    ) -> Generator[tuple[dict[str, Array], dict[str, Array]]]:
        """Yield outputs and the accelerator's tensors of each sample, and keep its profile."""
        self._many = []
        if all(turn.side == "host" for turn in self._plan):
            for inputs in samples:
                outputs = self._run(inputs, progress, None)
                self._many.append(self._last_profile())
                yield outputs, {}
            return
        begun = (
            self._sample(each, progress, {} if traced else None, thread_time) for each in samples
        )
        with closing(overlapped(begun, self._plan, self._run_step)) as done:
            for sample in done:
                outputs = self._finished(sample)
                self._many.append(self._last_profile())
                yield outputs, sample.tensors or {}

    def _last_profile(self) -> Profile:
        profile = self.profile
        assert profile is not None, "a run has just ended"
        return profile

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
        clock = thread_time if self._overlaps else perf_counter
        sample = self._sample(inputs, progress, tensors, clock)
        if self._overlaps:
            for _ in overlapped((sample,), self._plan, self._run_step):
                pass
        else:
            for place in range(len(self._functions)):
                self._run_step(sample, place)
        return self._finished(sample)

    def _sample(
        self,
        inputs: Mapping[str, Array],
        progress: Progress | None,
        tensors: dict[str, Array] | None,
        clock: Callable[[], float],
    ) -> Sample:
        values = {**self.executable.constants, **checked_inputs(self.executable.inputs, inputs)}
        return Sample(values, tensors, progress, clock)

    def _run_step(self, sample: Sample, place: int) -> None:
        run_step(self._functions[place], place, sample)

    def _finished(self, sample: Sample) -> dict[str, Array]:
        self._steps = sample.steps
        return {name: sample.values[value] for name, value in self._results}

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
    def of(cls, executable: Executable, functions: Sequence[StepFunction]) -> _Whole | None:
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
