"""Measure one point: exact cycles on the accelerator, or time on the processor of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
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
from codesign.ir.executable.cpu_kernel import CpuKernel
from codesign.ir.executable.executable import CpuStep, Executable
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.sim.cycle import CycleResult, program_cycles, time_program
from codesign.sim.simulator import Outcome
from experiments.rows.study_bounds import bound_cycles
from experiments.sweep.energy import energy
from experiments.sweep.network import Prepared
from experiments.sweep.point import Point
from experiments.sweep.row import LayerCost, Row
from experiments.sweep.samples import with_samples
from host_runtime.cpu import CpuFunction
from host_runtime.cuda import devices, open_driver
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
        samples=point.samples,
    )
    try:
        if point.target == "cpu":
            return Measured(row=_on_cpu(blank, with_samples(network.floating, point.samples)))
        if point.target == "gpu":
            return Measured(row=_on_gpu(blank, with_samples(network.floating, point.samples)))
        module = with_samples(network.integer, point.samples)
        return _on_accelerator(blank, point, module, started)
    except CodesignError as error:
        reason = "; ".join(
            " ".join(filter(None, (each.title_text(), each.label_text())))
            for each in error.diagnostics
        )
        return Measured(row=replace(blank, reason=reason))


def _on_cpu(blank: Row, module: Module) -> Row:
    started = time.perf_counter()
    executable = driver.compile(module, target="cpu", level=0)
    compiled = time.perf_counter() - started
    session = Session(executable)
    inputs = _inputs(executable)
    milliseconds = _median_ms(lambda: session.run(inputs))
    return replace(blank, status="done", time_ms=milliseconds, compile_s=compiled)


def _on_gpu(blank: Row, module: Module) -> Row:
    """Measure wall time on the first GPU; a machine without one refuses before it compiles."""
    found = devices(open_driver())
    if not found:
        raise CodesignError.of("no GPU can be used: the driver sees none")
    started = time.perf_counter()
    executable = driver.compile(module, target="gpu", level=0, architecture=found[0].architecture)
    compiled = time.perf_counter() - started
    session, inputs = Session(executable), _inputs(executable)
    milliseconds = _median_ms(lambda: session.run(inputs), clock=time.perf_counter)
    return replace(blank, status="done", time_ms=milliseconds, compile_s=compiled)


def _median_ms(run: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the median of a run's processor time, after one run that is not counted."""
    run()
    times = []
    for _ in range(_REPETITIONS):
        before = clock()
        run()
        times.append(clock() - before)
    return median(times) * 1e3


def _inputs(executable: Executable) -> Mapping[str, Array]:
    rng = np.random.default_rng(0)
    return {
        port.name: rng.standard_normal(port.type.static_shape).astype(port.type.dtype.numpy)
        for port in executable.inputs
        if isinstance(port.type, TensorType)
    }


def host_ms(kernel: CpuKernel) -> float:
    """Return the median processor time of operators on the host.

    Their integers or numbers mean nothing.
    """
    function, rng = CpuFunction(kernel), np.random.default_rng(0)
    arrays = tuple(
        rng.integers(-100, 100, each.static_shape).astype(each.dtype.numpy)
        for each in kernel.inputs
    )
    return _median_ms(lambda: function(*arrays))


def _on_accelerator(blank: Row, point: Point, module: Module, started: float) -> Measured:
    config = point.config.check()
    tuning = Tuning(program_cycles) if point.tiling == "search" else None
    executable = driver.compile(module, target="accel", config=config, tuning=tuning, level=0)
    compiled = time.perf_counter() - started
    runs = [
        (step.kernel, time_program(step.kernel.program, config)) for step in executable.accel_steps
    ]
    if not runs:
        raise CodesignError.of("no operator of the network runs on the accelerator")
    layers = tuple(layer for kernel, run in runs for layer in _layers(kernel, run))
    row = replace(
        _filled(blank, config, [run.counters for _, run in runs], layers, compiled),
        roofline_cycles=bound_cycles(module, config),
        tile_roofline_cycles=bound_cycles(module, config, in_tiles=True),
        host_ms=sum(host_ms(step.kernel) for step in executable.steps if isinstance(step, CpuStep)),
    )
    return Measured(row=row, layers=layers)


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
