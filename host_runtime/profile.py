"""What a run of an executable took, by step and, on the accelerator, by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

from codesign.accel.counters import Counters
from codesign.ir.executable.accel_kernel import AccelKernel, LayerRecord
from codesign.sim.simulator import Outcome, Timeline
from host_runtime.schedule import Plan, makespan


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProfile:
    """When a layer ran, in cycles: from its first instruction's start to its last one's end.

    `cycles` is what the layer adds to the run: from the end of the layer before to its own.
    """

    record: LayerRecord
    start: int
    end: int
    cycles: int

    @property
    def utilization(self) -> float:
        """The part of the layer's cycles in which the unit that it runs on was at work."""
        work = self.record.gemm_cycles if self.record.unit == "gemm" else self.record.vector_cycles
        return work / self.cycles if self.cycles else 0.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StepProfile:
    """One step: seconds of wall time, and on the accelerator cycles, counters and layers.

    Where steps overlap, seconds on the host are those of its thread, without what it waits for
    others. `cycles` is None on the host and where the device has no notion of time.
    """

    name: str
    kind: str
    time_s: float
    cycles: int | None = None
    counters: Counters | None = None
    layers: tuple[LayerProfile, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One run, step by step."""

    steps: tuple[StepProfile, ...]

    @property
    def time_s(self) -> float:
        """Wall time of all steps, in seconds."""
        return sum(step.time_s for step in self.steps)

    @property
    def cycles(self) -> int | None:
        """Cycles of all steps on the accelerator; None where the device tells none."""
        counted = [step.cycles for step in self.steps if step.kind == "accel"]
        known = [cycles for cycles in counted if cycles is not None]
        return sum(known) if counted and len(known) == len(counted) else None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProfile:
    """Several runs whose steps overlap: the steps, and what they took for each sample."""

    plan: Plan
    samples: tuple[Profile, ...]

    def makespan_s(self, clock_mhz: float) -> float | None:
        """Return the seconds from first to last on a device of that clock; None: no cycles."""
        times = self._times(clock_mhz)
        return None if times is None else makespan(self.plan, times)

    def in_turn_s(self, clock_mhz: float) -> float | None:
        """Return the seconds that the samples take where nothing overlaps; None: no cycles."""
        times = self._times(clock_mhz)
        return None if times is None else sum(map(sum, times))

    def with_cycles(self, cycles: Mapping[str, int | None]) -> PipelineProfile:
        """Return the profile with the cycles of each step on the accelerator, by its name."""
        samples = (
            Profile(
                steps=tuple(
                    replace(step, cycles=cycles[step.name]) if step.kind == "accel" else step
                    for step in sample.steps
                )
            )
            for sample in self.samples
        )
        return replace(self, samples=tuple(samples))

    def _times(self, clock_mhz: float) -> list[list[float]] | None:
        times: list[list[float]] = []
        for sample in self.samples:
            times.append([])
            for step in sample.steps:
                if step.kind != "accel":
                    times[-1].append(step.time_s)
                elif step.cycles is not None:
                    times[-1].append(step.cycles / clock_mhz / 1e6)
                else:
                    return None
        return times


def layer_profiles(kernel: AccelKernel, outcome: Outcome) -> tuple[LayerProfile, ...]:
    """Return each layer's times from a run's timeline; empty where there is none."""
    timeline = outcome.timeline
    if timeline is None:
        return ()
    profiles: list[LayerProfile] = []
    done = 0
    for record in kernel.layers:
        start, end = _span(timeline, record)
        profiles.append(
            LayerProfile(record=record, start=start, end=end, cycles=max(0, end - done))
        )
        done = max(done, end)
    return tuple(profiles)


def _span(timeline: Timeline, record: LayerRecord) -> tuple[int, int]:
    part = slice(record.first, record.last)
    return int(timeline.start[part].min()), int(timeline.end[part].max())
