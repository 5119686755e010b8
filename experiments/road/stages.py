"""One way of running a network over its samples, and what it gave."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import final

import numpy as np

from codesign.dtypes import Array
from codesign.sim.simulator import Progress
from experiments.road.subject import Inputs
from host_runtime.profile import PipelineProfile, Profile
from host_runtime.session import Session


class Stage(StrEnum):
    """The ways of running a network, from the definition to the circuit."""

    CPU_FP32 = "cpu fp32"
    CPU_INT8 = "cpu int8"
    FUNCTIONAL = "functional"
    CYCLE = "cycle"
    RTL = "rtl"


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StageResult:
    """What a stage gave for the first samples.

    `outputs` has one mapping (output's name to array) for each sample, `tensors` one (accelerator
    tensor's name to int8 array, in the order of execution), empty on the host. `cycles` are those
    of each sample, None where the stage has no notion of time. `time_s` is wall time per sample;
    `pipeline` says what host and accelerator take for all.
    """

    stage: Stage
    outputs: tuple[Mapping[str, Array], ...]
    tensors: tuple[Mapping[str, Array], ...]
    cycles: tuple[int | None, ...]
    profile: Profile | None
    pipeline: PipelineProfile | None
    time_s: float

    @property
    def first_output(self) -> Array:
        """The first output of every sample, Tensor[(samples, elements)]."""
        firsts = [next(iter(each.values())).reshape(-1) for each in self.outputs]
        return np.stack(firsts)

    @property
    def classes(self) -> Array:
        """The class each sample gets: the place of the greatest element of the first output.

        Where that has several rows, each row gets one: Tensor[(samples, rows)].
        """
        firsts = np.stack([next(iter(each.values())) for each in self.outputs])
        rows: Array = firsts.reshape(len(firsts), -1, firsts.shape[-1]).argmax(axis=2)
        return rows[:, 0] if rows.shape[1] == 1 else rows


def run_stage(
    stage: Stage,
    session: Session,
    samples: tuple[Inputs, ...],
    progress: Progress | None,
) -> StageResult:
    """Run the samples, host and accelerator at the same time; `progress` is told cycles."""
    started = time.perf_counter()
    traces = tuple(session.trace_many(samples, progress))
    elapsed = time.perf_counter() - started
    return StageResult(
        stage=stage,
        outputs=tuple(trace.outputs for trace in traces),
        tensors=tuple(trace.tensors for trace in traces),
        cycles=tuple(trace.profile.cycles for trace in traces),
        profile=traces[0].profile if traces else None,
        pipeline=session.pipeline,
        time_s=elapsed / max(1, len(samples)),
    )
