"""A comparison as numbers for programs (JSON) and as tables for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from codesign.accel.config import AccelConfig
from codesign.accel.resources import PARTS, Family, Fit, fit
from experiments.road.compare import Comparison
from experiments.road.layers import LayerRow, bound, utilization
from experiments.road.stages import Stage, StageResult

_HOSTS = (Stage.CPU_FP32, Stage.CPU_INT8)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison; units are in the names."""
    config, rows = comparison.config, comparison.layers()
    subject = comparison.built.subject
    return {
        "network": subject.name,
        "config_digest": config.digest,
        "clock_mhz": config.clock_mhz,
        "samples": len(subject.evaluation),
        "agrees": comparison.agrees,
        "differing_elements": comparison.differing_elements,
        "cycle_differences_cycles": comparison.cycle_differences,
        "disagreements": [each.text() for each in comparison.disagreements],
        "top1_agreement": comparison.top1_agreement() if subject.is_trained else None,
        "relative_error_rms": comparison.error(),
        "utilization": utilization(rows, _cycles(comparison), config),
        "bound": bound(rows),
        "stages": [_stage_json(comparison, each) for each in comparison.stages.values()],
        "pipeline": _pipeline_json(comparison),
        "layers": [_layer_json(comparison, row) for row in rows],
        "resource_estimates": [_fit_json(fit(config, part)) for part in PARTS],
        "host_operators": [
            {"name": each.name, "operator": each.operator, "reason": each.reason}
            for each in comparison.executable.placements
            if each.unit == "host"
        ],
    }


def as_tables(comparison: Comparison, *, layers: bool = True) -> RenderableType:
    """Return the tables: stages, the accelerator's run, layers, and any disagreement."""
    parts: list[RenderableType] = [_stage_table(comparison), _summary(comparison)]
    parts += [Text(each) for each in _pipeline_texts(comparison)]
    parts.append(Text(estimate_text(comparison.config)))
    if layers:
        parts += [Text(), _layer_table(comparison)]
    parts += [Text(f"DISAGREEMENT: {each.text()}") for each in comparison.disagreements]
    if comparison.cycle_differences:
        parts.append(
            Text(f"DISAGREEMENT: cycle and rtl differ by {comparison.cycle_differences:,} cycles")
        )
    return Group(*parts)


def estimate_text(config: AccelConfig) -> str:
    """Return what the hardware takes by the estimate, and which listed parts hold it."""
    fits = [fit(config, part) for part in PARTS]
    lines = []
    for family in Family:
        ours = [each for each in fits if each.part.family is family]
        needed = ours[0].needed
        holding = [each.part.name for each in ours if each.fits]
        lines.append(
            f"estimate for {family.name}: {needed.dsp} multipliers, {needed.block_ram} block RAMs "
            f"of 18 kbit, {needed.lut:,} LUTs, {needed.ff:,} flip-flops; "
            f"fits {', '.join(holding) if holding else 'none of the parts that are listed'}"
        )
    return "\n".join(lines)


def _fit_json(held: Fit) -> dict[str, Any]:
    return {
        "part": held.part.name,
        "fits": held.fits,
        "needed": asdict(held.needed),
        "usage": held.usage,
    }


def _stage_table(comparison: Comparison) -> Table:
    subject, config = comparison.built.subject, comparison.config
    table = Table(title=f"{subject.title} on {_shape(comparison)}", title_justify="left", box=None)
    table.add_column("stage")
    for title in ("samples", "agrees with", "top-1 = fp32", "label right", "error", "cycles"):
        table.add_column(title, justify="right")
    table.add_column("ms", justify="right")
    table.add_column("ms are")
    for result in comparison.stages.values():
        cycles = result.cycles[0] if result.cycles else None
        simulated = cycles is not None
        table.add_row(
            str(result.stage),
            str(len(result.outputs)),
            _agreement(comparison, result),
            _percent(_top1(comparison, result)) if subject.is_trained else "",
            _percent(_right(comparison, result)),
            "" if result.stage is Stage.CPU_FP32 else f"{_error(comparison, result):.2e}",
            f"{cycles:,}" if cycles is not None else "",
            f"{cycles / config.clock_mhz / 1e3:.3f}"
            if cycles is not None
            else f"{result.time_s * 1e3:.3f}",
            f"accelerator at {config.clock_mhz} MHz" if simulated else "wall time here",
        )
    return table


def _summary(comparison: Comparison) -> Text:
    rows, config = comparison.layers(), comparison.config
    cycles = _cycles(comparison)
    moved = sum(row.bytes for row in rows)
    host = sum(each.unit == "host" for each in comparison.executable.placements)
    return Text(
        f"{sum(row.macs for row in rows):,} MACs in {cycles:,} cycles: "
        f"{utilization(rows, cycles, config):.1%} of {config.macs} MAC/cycle; {moved:,} bytes "
        f"moved; most cycles are {bound(rows)}-bound; {host} operators on the host"
    )


def _pipeline_json(comparison: Comparison) -> dict[str, Any] | None:
    pipeline, clock_mhz = comparison.pipeline(), comparison.config.clock_mhz
    if pipeline is None:
        return None
    overlapped_s, in_turn_s = pipeline.makespan_s(clock_mhz), pipeline.in_turn_s(clock_mhz)
    if overlapped_s is None or in_turn_s is None:
        return None
    return {
        "samples": len(pipeline.samples),
        "overlapped_ms": overlapped_s * 1e3,
        "in_turn_ms": in_turn_s * 1e3,
    }


def _pipeline_texts(comparison: Comparison) -> list[str]:
    """Return the line that says what overlap brings, where there is something to overlap."""
    found = _pipeline_json(comparison)
    if found is None or not comparison.executable.accel_steps:
        return []
    return [
        f"{found['samples']} samples on this host and an accelerator at "
        f"{comparison.config.clock_mhz} MHz, copies not counted: {found['overlapped_ms']:.3f} ms "
        f"overlapped, {found['in_turn_ms']:.3f} ms in turn"
    ]


def _layer_table(comparison: Comparison) -> Table:
    table = Table("layer", "operator", "unit", box=None)
    for title in ("cycles", "share", "MACs", "utilization", "bytes", "MAC/byte"):
        table.add_column(title, justify="right")
    table.add_column("bound by")
    cycles = max(1, _cycles(comparison))
    for row in comparison.layers():
        table.add_row(
            row.name[-28:],
            row.operator,
            row.unit,
            f"{row.cycles:,}",
            f"{row.cycles / cycles:.1%}",
            f"{row.macs:,}",
            f"{row.utilization(comparison.config):.1%}",
            f"{row.bytes:,}",
            f"{row.intensity:.1f}",
            row.bound,
        )
    return table


def _stage_json(comparison: Comparison, result: StageResult) -> dict[str, Any]:
    cycles = result.cycles[0] if result.cycles else None
    profile = result.profile
    counters = [step.counters for step in profile.steps if step.counters] if profile else []
    return {
        "stage": str(result.stage),
        "samples": len(result.outputs),
        "cycles": cycles,
        "accelerator_ms": None if cycles is None else cycles / comparison.config.clock_mhz / 1e3,
        "wall_time_ms_per_sample": result.time_s * 1e3,
        "top1_agreement": _top1(comparison, result),
        "label_accuracy": _right(comparison, result),
        "counters": [each.as_dict() for each in counters],
    }


def _layer_json(comparison: Comparison, row: LayerRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "operator": row.operator,
        "unit": row.unit,
        "cycles": row.cycles,
        "least_cycles": row.least_cycles,
        "macs": row.macs,
        "bytes": row.bytes,
        "utilization": row.utilization(comparison.config),
        "bound": row.bound,
    }


def _shape(comparison: Comparison) -> str:
    config = comparison.config
    return f"{config.batch}x{config.block_in}x{config.block_out} at {config.clock_mhz} MHz"


def _cycles(comparison: Comparison) -> int:
    counted = comparison.stages[Stage.CYCLE].cycles
    return counted[0] or 0 if counted else 0


def _agreement(comparison: Comparison, result: StageResult) -> str:
    order = [stage for stage in comparison.stages if stage != Stage.CPU_FP32]
    place = order.index(result.stage) if result.stage in order else 0
    if place == 0:
        return ""
    before = order[place - 1]
    broken = any(
        each.right == result.stage or each.left == str(before)
        for each in comparison.disagreements
        if each.right == str(result.stage)
    )
    return f"{before}: NO" if broken else f"{before}: bit for bit"


def _top1(comparison: Comparison, result: StageResult) -> float:
    fp32 = comparison.stages[Stage.CPU_FP32].classes[: len(result.outputs)]
    return float((fp32 == result.classes).mean())


def _right(comparison: Comparison, result: StageResult) -> float | None:
    labels = comparison.built.subject.labels
    if labels is None:
        return None
    return float((result.classes == np.array(labels[: len(result.outputs)])).mean())


def _error(comparison: Comparison, result: StageResult) -> float:
    fp32 = comparison.stages[Stage.CPU_FP32].first_output[: len(result.outputs)]
    difference = float(np.linalg.norm(result.first_output - fp32))
    return difference / max(float(np.linalg.norm(fp32)), 1e-30)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
