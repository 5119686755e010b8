"""accel-values, -cycles, -gemm, -load: the RTL against both simulators, and what it achieves."""

from __future__ import annotations

from typing import Final

from codesign.accel.config import AccelConfig
from codesign.accel.counters import Counters
from codesign.accel.presets import preset
from codesign.sim.rtl import RtlSimulator
from experiments.road.devices import simulator_library
from experiments.rows.measurement import CONSOLE, Measurement
from tests.support.campaign import Tally, campaign, configurations
from tests.support.layers import Convolutions, Image, convolutions, loads

CONFIGURATIONS: Final = 44
PROGRAMS: Final = 48
"""For each configuration: 2,112 programs in all."""

SEED: Final = 1

LOAD_BYTES: Final = 1 << 20
LOAD_LATENCY_CYCLES: Final = 60

RESIDENT: Final = Convolutions(side=28, channels=2, has_residual=False)
"""784 tiles of accumulators, as many as fit one bank of `base`, 9 x 2 products each."""


def accel_values() -> Measurement:
    """Count the random programs that leave other bytes in DRAM than the functional simulator."""
    return Measurement(value=_campaign().differing_programs, unit="differing programs")


def accel_cycles() -> Measurement:
    """Sum the differences in cycles and counters over the same programs and three memories."""
    return Measurement(value=_campaign().distance, unit="cycles and counts")


def accel_gemm() -> Measurement:
    """Return the tile products per cycle of one convolution in one instruction, in percent."""
    config = preset("base")
    counters = _on_rtl(config, convolutions(config, RESIDENT))
    products = counters.macs // config.macs
    CONSOLE.print(f"{products} products, gemm is busy for {counters.gemm_busy} cycles")
    return Measurement(value=100 * products / counters.gemm_busy, unit="percent", digits=2)


def accel_load() -> Measurement:
    """Return the share of a program's cycles in which a beat of 1 MiB moves, in percent."""
    config = preset("base").with_dram(latency_cycles=LOAD_LATENCY_CYCLES)
    counters = _on_rtl(config, loads(config, LOAD_BYTES))
    beats = LOAD_BYTES // config.bus_bytes
    CONSOLE.print(f"{beats} beats in {counters.cycles} cycles")
    return Measurement(value=100 * beats / counters.cycles, unit="percent", digits=2)


def _campaign() -> Tally:
    chosen = list(configurations(CONFIGURATIONS, SEED))
    found = campaign(chosen, PROGRAMS, SEED, lambda line: CONSOLE.print(line, markup=False))
    CONSOLE.print(
        f"{found.configurations} configurations, {found.programs} programs, {found.runs} runs, "
        f"{found.cycles:,} cycles; {found.differing_programs} programs differ, cycles and counters "
        f"are {found.distance} off"
    )
    return found


def _on_rtl(config: AccelConfig, image: Image) -> Counters:
    program, dram, bases = image
    library = simulator_library(config, CONSOLE.print)
    return RtlSimulator(config, library).run(program, dram, bases).counters
