"""Measure one point: exact cycles on the accelerator, or time on the processor of this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.counters import Counters
from codesign.accel.resources import Family, estimate
from codesign.compiler import driver
from codesign.compiler.backends.accel.search import Tuning
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.accel_kernel import AccelKernel
from codesign.ir.executable.executable import Executable
from codesign.ir.relay.types import TensorType
from codesign.sim.cycle import CycleResult, program_cycles, time_program
from codesign.sim.simulator import Outcome
from experiments.sweep.energy import energy
from experiments.sweep.network import Prepared
from experiments.sweep.point import Point
from experiments.sweep.row import LayerCost, Row
from host_runtime.profile import layer_profiles
from host_runtime.session import Session

_REPETITIONS: Final = 20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A point's row and, on the accelerator, its layers."""

    row: Row
    layers: tuple[LayerCost, ...] = ()


def measure(point: Point, network: Prepared) -> Measured:
    """Return a point's row; a point that is refused is a row with the reason."""
    started = time.perf_counter()
    blank = Row(
        point=point.identity,
        network=point.network,
        target=point.target,
        configuration=point.config.to_toml() if point.target == "accel" else "",
        status="refused",
    )
    try:
        if point.target == "cpu":
            return Measured(row=_on_cpu(blank, network))
        return _on_accelerator(blank, point.config.check(), network, started)
    except CodesignError as error:
        reason = "; ".join(
            " ".join(filter(None, (each.title_text(), each.label_text())))
            for each in error.diagnostics
        )
        return Measured(row=replace(blank, reason=reason))


def _on_cpu(blank: Row, network: Prepared) -> Row:
    started = time.perf_counter()
    executable = driver.compile(network.floating, target="cpu", level=0)
    compiled = time.perf_counter() - started
    session = Session(executable)
    inputs = _inputs(executable)
    session.run(inputs)
    times = []
    for _ in range(_REPETITIONS):
        before = time.perf_counter()
        session.run(inputs)
        times.append(time.perf_counter() - before)
    return replace(blank, status="done", time_ms=median(times) * 1e3, compile_s=compiled)


def _inputs(executable: Executable) -> Mapping[str, Array]:
    rng = np.random.default_rng(0)
    return {
        port.name: rng.standard_normal(port.type.static_shape).astype(port.type.dtype.numpy)
        for port in executable.inputs
        if isinstance(port.type, TensorType)
    }


def _on_accelerator(blank: Row, config: AccelConfig, network: Prepared, started: float) -> Measured:
    executable = driver.compile(
        network.integer, target="accel", config=config, tuning=Tuning(program_cycles), level=0
    )
    compiled = time.perf_counter() - started
    runs = [
        (step.kernel, time_program(step.kernel.program, config)) for step in executable.accel_steps
    ]
    if not runs:
        raise CodesignError.of("no operator of the network runs on the accelerator")
    layers = tuple(layer for kernel, run in runs for layer in _layers(kernel, run))
    return Measured(
        row=_filled(blank, config, [run.counters for _, run in runs], layers, compiled),
        layers=layers,
    )


def _layers(kernel: AccelKernel, run: CycleResult) -> list[LayerCost]:
    outcome = Outcome(cycles=run.cycles, counters=run.counters, timeline=run.timeline)
    return [
        LayerCost(
            layer=each.record.name or each.record.output,
            operator=each.record.operator,
            unit=each.record.unit,
            cycles=each.cycles,
            busiest_cycles=each.record.bound_cycles,
            bound=each.record.bound,
            macs=each.record.macs,
            moved_bytes=each.record.bytes_read + each.record.bytes_written,
        )
        for each in layer_profiles(kernel, outcome)
    ]


def _filled(
    blank: Row,
    config: AccelConfig,
    counters: list[Counters],
    layers: tuple[LayerCost, ...],
    compiled: float,
) -> Row:
    cycles = sum(each.cycles for each in counters)
    least = sum(layer.busiest_cycles for layer in layers)
    macs = sum(layer.macs for layer in layers)
    resources = estimate(config, Family.ECP5)
    used = [energy(config, each) for each in counters]
    bounds: dict[str, int] = {}
    for layer in layers:
        bounds[layer.bound] = bounds.get(layer.bound, 0) + layer.cycles
    return replace(
        blank,
        status="done",
        cycles=cycles,
        time_ms=cycles / config.clock_mhz / 1e3,
        busiest_cycles=least,
        busiest_percent=100 * least / cycles,
        macs=macs,
        utilization_percent=100 * macs / (cycles * config.macs),
        moved_bytes=sum(each.bytes_read + each.bytes_written for each in counters),
        bound=max(bounds, key=lambda name: bounds[name]),
        dsp_count=resources.dsp,
        block_ram_18kbit_count=resources.block_ram,
        lut_count=round(resources.lut),
        ff_count=round(resources.ff),
        mac_uj=sum(each.mac_uj for each in used),
        sram_uj=sum(each.sram_uj for each in used),
        dram_uj=sum(each.dram_uj for each in used),
        energy_uj=sum(each.total_uj for each in used),
        compile_s=compiled,
    )
