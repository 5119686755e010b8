"""road-bitexact, road-cycles, road-fp32 and road-top1: the road over all networks and presets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.accel.presets import preset
from experiments.networks.answers import COUNT, recorded
from experiments.networks.packages import BUILD
from experiments.networks.registry import NETWORKS, Network
from experiments.road.build import OnCpu, build_on_cpu, compile_fp32
from experiments.road.compare import Comparison, compare
from experiments.road.stages import Stage, run_stage
from experiments.road.subject import subject
from experiments.rows.measurement import CONSOLE, Measurement
from host_runtime.session import Session

PRESETS: Final = ("tiny", "edge", "base", "batch4")
BITEXACT_SAMPLES: Final = 4
RTL_SAMPLES: Final = 1
TOP1_SAMPLES: Final = 200


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RoadRun:
    """One network under one preset, every stage compared."""

    network: str
    preset: str
    comparison: Comparison


def road_bitexact() -> Measurement:
    """Count the elements in which the integer stages differ, over networks and presets."""
    total = 0
    for run in _runs():
        found = run.comparison.differing_elements
        CONSOLE.print(f"{run.network} at {run.preset}: {found} elements differ")
        for each in run.comparison.disagreements:
            CONSOLE.print(each.text())
        total += found
    return Measurement(value=total, unit="differing output elements")


def road_cycles() -> Measurement:
    """Sum |cycle simulator - RTL| over the same runs."""
    total = 0
    for run in _runs():
        if Stage.RTL not in run.comparison.stages:
            continue
        cycles = run.comparison.stages[Stage.RTL].cycles[0]
        found = run.comparison.cycle_differences
        CONSOLE.print(f"{run.network} at {run.preset}: {cycles:,} cycles, {found} off")
        total += found
    return Measurement(value=total, unit="cycles")


def road_fp32() -> Measurement:
    """Return the worst |ours - onnxruntime's| over onnxruntime's greatest, fp32 on the CPU."""
    worst = 0.0
    for network in _available():
        expected = recorded(network, BUILD)
        judged = subject(network.name, samples=COUNT)
        session = Session(compile_fp32(judged, CONSOLE.print))
        outputs = run_stage(Stage.CPU_FP32, session, judged.evaluation, None)
        error = _relative_error(outputs.first_output, expected.reshape(len(expected), -1))
        CONSOLE.print(f"{network.name}: {error:.2e}")
        worst = max(worst, error)
    return Measurement(value=worst, unit="relative", digits=8)


def road_top1() -> Measurement:
    """Return the worst share of samples to which int8 gives fp32's class, in percent."""
    worst = 100.0
    for network in _available():
        if not network.is_trained:
            continue
        built = build_on_cpu(subject(network.name, samples=TOP1_SAMPLES), CONSOLE.print)
        samples = built.subject.evaluation
        fp32 = run_stage(Stage.CPU_FP32, Session(built.fp32), samples, None)
        int8 = run_stage(Stage.CPU_INT8, Session(built.int8), samples, None)
        agreement = 100 * float((fp32.classes == int8.classes).mean())
        CONSOLE.print(f"{network.name}: {agreement:.1f} % of {len(samples)} samples")
        worst = min(worst, agreement)
    return Measurement(value=worst, unit="%", digits=2)


def _runs() -> Iterator[RoadRun]:
    for network in _available():
        built = build_on_cpu(subject(network.name, samples=BITEXACT_SAMPLES), CONSOLE.print)
        for name in PRESETS:
            CONSOLE.print(f"{network.name} at {name}")
            yield RoadRun(
                network=network.name, preset=name, comparison=_compared(built, network, name)
            )


def _compared(built: OnCpu, network: Network, name: str) -> Comparison:
    rtl_samples = RTL_SAMPLES if network.runs_on_rtl else 0
    return compare(built, preset(name), CONSOLE.print, rtl_samples=rtl_samples)


def _available() -> Iterator[Network]:
    for network in NETWORKS:
        reason = network.missing()
        if reason is None:
            yield network
        else:
            CONSOLE.print(f"left out {network.name}: {reason}", markup=False)


def _relative_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())
