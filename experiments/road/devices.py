"""Simulators by name, the Verilated one built where it is not cached; and what they report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias, final

import numpy as np
import platformdirs
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig
from codesign.accel.program import Program
from codesign.sim.simulator import Outcome, Progress, Simulator
from hardware.verilate import build_simulator
from host_runtime.device import open_device

Say: TypeAlias = Callable[[str], None]
"""Is told in one line what happens next."""

REPORT_SECONDS: Final = 5.0
"""Time between two lines of progress where standard error is not a terminal."""


def simulator_cache() -> Path:
    """Return the folder of built simulators, the user's cache."""
    return Path(platformdirs.user_cache_dir("codesign")) / "simulators"


def simulator_library(config: AccelConfig, say: Say) -> Path:
    """Return the Verilated simulator of a configuration, building it where it is not cached.

    Raises
    ------
    CodesignError
        A tool of the build is missing or fails.
    """
    return build_simulator(config, simulator_cache(), say)


def device(name: str, config: AccelConfig, say: Say) -> Simulator:
    """Return the simulator `functional`, `cycle` or `rtl` of a configuration.

    Raises
    ------
    CodesignError
        The RTL simulator cannot be built.
    """
    return open_device(name, config, simulator_library(config, say) if name == "rtl" else None)


@final
class Recorder:
    """A simulator that keeps the programs it ran with what they took, in order."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.runs: list[tuple[Program, Outcome]] = []

    @property
    def name(self) -> str:
        """The simulator's own name."""
        return self._simulator.name

    @property
    def config(self) -> AccelConfig:
        """The configuration that is simulated."""
        return self._simulator.config

    def run(
        self,
        program: Program,
        dram: NDArray[np.uint8],
        bases: Sequence[int],
        progress: Progress | None = None,
    ) -> Outcome:
        """Run a program, as `Simulator.run` promises, and remember it."""
        outcome = self._simulator.run(program, dram, bases, progress)
        self.runs.append((program, outcome))
        return outcome


@final
class CycleProgress:
    """Prints cycles and their rate on standard error: in place on a terminal, else rarely."""

    def __init__(self, what: str, expected_cycles: int | None = None) -> None:
        self._what = what
        self._expected = expected_cycles
        self._last = time.monotonic()
        self._in_place = sys.stderr.isatty()

    def __call__(self, cycles: int, cycles_per_second: float) -> None:
        """Show that `cycles` ran so far."""
        now = time.monotonic()
        if not self._in_place and now - self._last < REPORT_SECONDS:
            return
        self._last = now
        share = f" of {self._expected:,}" if self._expected else ""
        line = f"{self._what}: {cycles:,}{share} cycles, {cycles_per_second / 1e6:.2f} Mcycle/s"
        sys.stderr.write(f"\r{line}\033[K" if self._in_place else f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._in_place:
            sys.stderr.write("\r\033[K")
