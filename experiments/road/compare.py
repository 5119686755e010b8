"""Run a network in every way and compare: the same code behind `codesign compare` and the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.compiler.partition.costs import ByCost
from codesign.ir.executable.executable import Executable
from codesign.sim.simulator import Outcome
from experiments.road.build import OnCpu, compile_accel
from experiments.road.devices import CycleProgress, Recorder, Say, device
from experiments.road.disagreement import Disagreement, count_differing, first_disagreement
from experiments.road.layers import LayerRow
from experiments.road.stages import Stage, StageResult, run_stage
from experiments.road.subject import Inputs
from host_runtime.profile import PipelineProfile
from host_runtime.session import Session

RTL_SAMPLES: Final = 2
"""Samples that run on the circuit by default; its cycles do not depend on the data."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """All stages of one network under one configuration.

    `outcomes` are what the cycle simulator said of each accelerator program of the first sample.
    """

    built: OnCpu
    config: AccelConfig
    executable: Executable
    stages: Mapping[Stage, StageResult]
    outcomes: tuple[Outcome, ...]
    disagreements: tuple[Disagreement, ...]
    differing_elements: int

    @property
    def cycle_differences(self) -> int:
        """Sum over the samples that ran on the circuit of |cycle simulator - RTL|, in cycles."""
        if Stage.RTL not in self.stages:
            return 0
        pairs = zip(self.stages[Stage.CYCLE].cycles, self.stages[Stage.RTL].cycles, strict=False)
        return sum(abs((left or 0) - (right or 0)) for left, right in pairs)

    @property
    def agrees(self) -> bool:
        """Whether all integer answers agree bit for bit and all cycle counts cycle for cycle."""
        return not self.disagreements and self.cycle_differences == 0

    def top1_agreement(self) -> float:
        """Return the share of samples to which int8 gives the class that fp32 gives, 0 to 1."""
        fp32, int8 = self.stages[Stage.CPU_FP32], self.stages[Stage.CPU_INT8]
        return float((fp32.classes == int8.classes).mean())

    def error(self) -> float:
        """Return the root mean square of int8 - fp32 over that of fp32."""
        fp32 = self.stages[Stage.CPU_FP32].first_output
        int8 = self.stages[Stage.CPU_INT8].first_output
        return float(np.linalg.norm(int8 - fp32) / max(float(np.linalg.norm(fp32)), 1e-30))

    def pipeline(self) -> PipelineProfile | None:
        """Return what host and accelerator take for all samples; cycles do not depend on data."""
        functional, timed = self.stages[Stage.FUNCTIONAL].pipeline, self.stages[Stage.CYCLE].profile
        if functional is None or timed is None:
            return None
        return functional.with_cycles({step.name: step.cycles for step in timed.steps})

    def layers(self) -> tuple[LayerRow, ...]:
        """Return every layer of the accelerator's programs with its cycles."""
        profile = self.stages[Stage.CYCLE].profile
        return (
            ()
            if profile is None
            else tuple(
                LayerRow(
                    name=layer.record.name,
                    operator=layer.record.operator,
                    unit=layer.record.unit,
                    cycles=layer.cycles,
                    least_cycles=layer.record.bound_cycles,
                    bound=layer.record.bound,
                    macs=layer.record.macs,
                    bytes=layer.record.bytes_read + layer.record.bytes_written,
                )
                for step in profile.steps
                for layer in step.layers
            )
        )


def compare(
    built: OnCpu,
    config: AccelConfig,
    say: Say,
    *,
    rtl_samples: int = RTL_SAMPLES,
    placement: ByCost | None = None,
) -> Comparison:
    """Run the subject's samples in every way; the circuit runs the first `rtl_samples`, 0: none.

    `placement` is that of `codesign.compile`.

    Raises
    ------
    CodesignError
        The network does not fit the configuration, or the RTL simulator cannot be built.
    """
    samples = built.subject.evaluation
    executable = compile_accel(built.subject, built.quantized, config, say, placement)
    stages = {
        Stage.CPU_FP32: _on_host(Stage.CPU_FP32, built.fp32, built, say),
        Stage.CPU_INT8: _on_host(Stage.CPU_INT8, built.int8, built, say),
    }
    stages[Stage.FUNCTIONAL], _ = _on_device(Stage.FUNCTIONAL, executable, config, samples, say)
    # Cycles do not depend on data: more than the circuit's samples would tell nothing new.
    timed = samples[: max(1, rtl_samples)]
    stages[Stage.CYCLE], outcomes = _on_device(Stage.CYCLE, executable, config, timed, say)
    if rtl_samples:
        stages[Stage.RTL], _ = _on_device(Stage.RTL, executable, config, samples[:rtl_samples], say)
    integer = [stages[stage] for stage in Stage if stage in stages and stage != Stage.CPU_FP32]
    module = built.quantized.module
    found = [first_disagreement(a, b, module, samples) for a, b in pairwise(integer)]
    return Comparison(
        built=built,
        config=config,
        executable=executable,
        stages=stages,
        outcomes=outcomes,
        disagreements=tuple(each for each in found if each is not None),
        differing_elements=sum(count_differing(a, b) for a, b in pairwise(integer)),
    )


def _on_host(stage: Stage, executable: Executable, built: OnCpu, say: Say) -> StageResult:
    say(f"running {stage}: {len(built.subject.evaluation)} samples")
    return run_stage(stage, Session(executable), built.subject.evaluation, None)


def _on_device(
    stage: Stage,
    executable: Executable,
    config: AccelConfig,
    samples: tuple[Inputs, ...],
    say: Say,
) -> tuple[StageResult, tuple[Outcome, ...]]:
    recorder = Recorder(device(stage.value, config, say))
    say(f"running {stage}: {len(samples)} samples")
    progress = CycleProgress(str(stage))
    try:
        result = run_stage(stage, Session(executable, recorder), samples, progress)
    finally:
        progress.close()
    # Samples overlap, so that their programs mix; of each program the first run is the first
    # sample's.
    outcomes = tuple(
        next(outcome for program, outcome in recorder.runs if program is step.kernel.program)
        for step in executable.accel_steps
    )
    return result, outcomes
