"""Simulators of the accelerator on whole networks: seconds of processor time for one sample.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.simulators [--preset base] [NETWORK …]

Networks are names of `experiments.networks` or ONNX files. Times are of the process's processor
clock, so that a busy machine disturbs them less; BLAS should have one thread, since those that wait
count too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from time import process_time
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig
from codesign.accel.presets import preset
from codesign.accel.program import Program
from codesign.sim.cycle import CycleSimulator
from codesign.sim.functional import FunctionalSimulator
from codesign.sim.simulator import Outcome, Progress, program_base
from experiments.road.build import compile_accel, quantize_subject
from experiments.road.subject import subject
from host_runtime.session import Session

_T = TypeVar("_T")

ROUNDS = 5


class Stopwatch:
    """A simulator that times what it runs; it stands in a `Session` for a device.

    Attributes
    ----------
    lines
        One for every program that ran.
    """

    name = "functional"

    def __init__(self, config: AccelConfig) -> None:
        self.config = config
        self.lines: list[str] = []

    def run(
        self,
        program: Program,
        dram: NDArray[np.uint8],
        bases: Sequence[int],
        progress: Progress | None = None,
    ) -> Outcome:
        """Run a program on fresh simulators, once and `ROUNDS` times more."""
        functional, cycle = FunctionalSimulator(self.config), CycleSimulator(self.config)
        before = dram.copy()
        first, _ = _timed(lambda: functional.run(program, dram, bases))
        again, counters = _best(lambda: functional.run(program, before.copy(), bases))
        base = program_base(dram)
        timing, result = _best(lambda: cycle.run(program, bases, program_base=base))
        self.lines.append(
            f"{len(program.instructions)} instructions, {counters.macs / 1e6:.0f} million macs, "
            f"{result.cycles / 1e6:.2f} million cycles: functional {again:.3f} s "
            f"({first:.3f} s the first time), cycle {timing:.3f} s"
        )
        return Outcome(cycles=None, counters=counters)


def _timed(run: Callable[[], _T]) -> tuple[float, _T]:
    start = process_time()
    result = run()
    return process_time() - start, result


def _best(run: Callable[[], _T]) -> tuple[float, _T]:
    return min((_timed(run) for _ in range(ROUNDS)), key=lambda timed: timed[0])


def measure(name: str, config: AccelConfig) -> list[str]:
    """Return a line for every accelerator program of a network."""
    chosen = subject(name, samples=1)
    quantized = quantize_subject(chosen, print)
    watch = Stopwatch(config)
    Session(compile_accel(chosen, quantized, config, print), watch).run(chosen.evaluation[0])
    return [f"{name}: {line}" for line in watch.lines]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.simulators")
    parser.add_argument("--preset", default="base")
    parser.add_argument("networks", nargs="*", default=["digits", "orientation", "resnet18"])
    arguments = parser.parse_args()
    for name in arguments.networks:
        print(*measure(name, preset(arguments.preset)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
