"""The two simulators that are no circuit, behind the common protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig
from codesign.accel.program import Program
from codesign.sim.cycle import CycleSimulator
from codesign.sim.functional import FunctionalSimulator
from codesign.sim.simulator import Outcome, Progress, program_base


@final
class ValueSimulator:
    """Values without time: the functional simulator."""

    name: Final = "functional"

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        self._functional = FunctionalSimulator(config)

    @property
    def config(self) -> AccelConfig:
        """The configuration that is simulated."""
        return self._config

    def run(
        self,
        program: Program,
        dram: NDArray[np.uint8],
        bases: Sequence[int],
        progress: Progress | None = None,
    ) -> Outcome:
        """Run a program, as `Simulator.run` promises; without cycles and timeline."""
        return Outcome(cycles=None, counters=self._functional.run(program, dram, bases))


@final
class TimedSimulator:
    """Values from the functional simulator, time from the cycle simulator."""

    name: Final = "cycle"

    def __init__(self, config: AccelConfig) -> None:
        self._config = config
        self._functional = FunctionalSimulator(config)
        self._cycle = CycleSimulator(config)

    @property
    def config(self) -> AccelConfig:
        """The configuration that is simulated."""
        return self._config

    def run(
        self,
        program: Program,
        dram: NDArray[np.uint8],
        bases: Sequence[int],
        progress: Progress | None = None,
    ) -> Outcome:
        """Run a program, as `Simulator.run` promises."""
        values = self._functional.run(program, dram, bases)
        timed = self._cycle.run(program, bases, program_base=program_base(dram))
        counters = replace(timed.counters, saturations=values.saturations)
        return Outcome(cycles=timed.cycles, counters=counters, timeline=timed.timeline)
