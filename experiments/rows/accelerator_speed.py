"""accel-rtl-speed and accel-fast-speed: simulated cycles per second.

Both count the CPU time of the thread that simulates, so that other work on the machine takes no
share of it; what shares caches and clock frequency with it still slows it down.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig
from codesign.accel.presets import preset
from codesign.accel.program import Program
from codesign.diagnostics import CodesignError
from codesign.sim.cycle import CycleSimulator
from codesign.sim.rtl import RtlSimulator
from codesign.sim.simulator import Outcome, Progress, program_base
from experiments.road.build import compile_accel, quantize_subject
from experiments.road.devices import simulator_cache, simulator_library
from experiments.road.subject import subject
from experiments.rows.measurement import CONSOLE, Measurement
from host_runtime.session import Session
from tests.support.layers import Convolutions, convolutions
from tests.support.lockstep import arm_differences, build_arms
from tests.support.programs import random_program

BUSY: Final = Convolutions(side=10, rounds=3500)
"""Loads, products, scaled sums and stores of neighbouring rounds run at once: 3.3 M cycles."""

BUSY_LEAST: Final = 0.9
"""Share of the cycles in which gemm must be busy for the program to count."""

TURNS: Final = 9
RANDOM_PROGRAMS: Final = 15
LOCKSTEP_LAYERS: Final = (
    Convolutions(side=5, rounds=4),
    Convolutions(side=3, channels=3, rounds=6),
    Convolutions(side=12, rounds=3, has_residual=False),
)
SEED: Final = 5


def accel_rtl_speed() -> Measurement:
    """Return the speed of the RTL simulation at `base` with all units busy: the best of 9 turns.

    What is timed is the simulation of cycles, without encoding the program before it: from the
    first report of progress to the last.

    Raises
    ------
    CodesignError
        The two arms of the RTL differ on a program, or the program does not keep gemm busy.
    """
    config = preset("base")
    library = simulator_library(config, CONSOLE.print)
    _prove_arms_equal(config)
    program, dram, bases = convolutions(config, BUSY)
    best = 0.0
    for _ in range(TURNS):
        clock = _Clock()
        counters = RtlSimulator(config, library).run(program, dram, bases, clock.tell).counters
        cycles, seconds = clock.elapsed()
        speed = cycles / seconds / 1000
        CONSOLE.print(
            f"{cycles:,} cycles in {seconds:.2f} s: {speed:.0f} k cycles/s; busy: "
            f"gemm {counters.gemm_busy / counters.cycles:.0%}, "
            f"load {counters.load_busy / counters.cycles:.0%}, "
            f"vector {counters.vector_busy / counters.cycles:.0%}, "
            f"store {counters.store_busy / counters.cycles:.0%}"
        )
        if counters.gemm_busy < BUSY_LEAST * counters.cycles:
            raise CodesignError.of("the program for the speed of the RTL leaves gemm idle")
        best = max(best, speed)
    return Measurement(value=best, unit="k cycles/s")


def accel_fast_speed() -> Measurement:
    """Return how many times faster than the RTL the cycle simulator is, on ResNet-18 at `base`."""
    config = preset("base")
    judged = subject("resnet18", samples=1)
    quantized = quantize_subject(judged, CONSOLE.print)
    executable = compile_accel(judged, quantized, config, CONSOLE.print)
    both = _Both(config)
    Session(executable, both).run(judged.evaluation[0])
    CONSOLE.print(
        f"{both.cycles:,} cycles: cycle simulator {both.cycle_seconds:.2f} s, "
        f"RTL {both.rtl_seconds:.2f} s"
    )
    return Measurement(value=both.rtl_seconds / both.cycle_seconds, unit="times", digits=1)


@final
class _Clock:
    """Cycles and CPU seconds of this thread at each report of progress."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, float]] = []

    def tell(self, cycles: int, _: float) -> None:
        self._seen.append((cycles, time.thread_time()))

    def elapsed(self) -> tuple[int, float]:
        """Return cycles and seconds between the first report and the last."""
        (first, begin), (last, end) = self._seen[0], self._seen[-1]
        return last - first, end - begin


@final
class _Both:
    """Runs each program on the RTL and on the cycle simulator, and times both."""

    name: Final = "rtl"

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        self._rtl = RtlSimulator(config, simulator_library(config, CONSOLE.print))
        self._cycle = CycleSimulator(config)
        warm, _, bases = convolutions(config, Convolutions(side=2))
        self._cycle.run(warm, bases)  # compiles the simulator
        self.cycles, self.rtl_seconds, self.cycle_seconds = 0, 0.0, 0.0

    @property
    def config(self) -> AccelConfig:
        return self._config

    def run(
        self,
        program: Program,
        dram: NDArray[np.uint8],
        bases: Sequence[int],
        progress: Progress | None = None,
    ) -> Outcome:
        begin = time.thread_time()
        timed = self._cycle.run(program, bases, program_base=program_base(dram))
        between = time.thread_time()
        simulated = self._rtl.run(program, dram, bases)
        end = time.thread_time()
        if simulated.cycles != timed.cycles:
            raise CodesignError.of(
                "the cycle simulator and the RTL disagree",
                found=f"{timed.cycles} and {simulated.cycles} cycles",
            )
        self.cycles += timed.cycles
        self.cycle_seconds += between - begin
        self.rtl_seconds += end - between
        return simulated


def _prove_arms_equal(config: AccelConfig) -> None:
    libraries = build_arms(config, simulator_cache(), CONSOLE.print)
    images = [
        random_program(np.random.default_rng((SEED, index)), config)
        for index in range(RANDOM_PROGRAMS)
    ]
    images += [convolutions(config, shape, SEED) for shape in LOCKSTEP_LAYERS]
    differing = 0
    for index, image in enumerate(images):
        found = arm_differences(config, libraries, *image)
        differing += bool(found)
        for sentence in found:
            CONSOLE.print(f"program {index}: {sentence}", markup=False)
    CONSOLE.print(f"the two arms differ on {differing} of {len(images)} programs")
    if differing:
        raise CodesignError.of("the simulation arm is not the FPGA arm", found="see above")
