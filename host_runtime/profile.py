"""What a run of an executable took, by step and, on the accelerator, by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from codesign.accel.counters import Counters
from codesign.ir.executable.accel_kernel import AccelKernel, LayerRecord
from codesign.sim.simulator import Outcome, Timeline


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

    `cycles` is None on the host and where the device has no notion of time.
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
