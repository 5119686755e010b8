"""Start and end of every instruction: the RTL's, seen in its waves, against the simulator's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.sim.composed import TimedSimulator
from codesign.sim.rtl import Observation, RtlSimulator
from codesign.sim.trace import chrome_trace
from hardware.verilate import build_simulator
from tests.support.campaign import SMALL
from tests.support.cosim import CACHE
from tests.support.programs import random_program
from tests.support.rtl_timeline import rtl_timeline

pytestmark = [pytest.mark.slow, pytest.mark.needs_verilator]

PROGRAMS = 4
OTHER = replace(
    SMALL, batch=2, block_in=2, vector_lanes=2, acc_banks=4, bus_bits=128, outstanding=2
)


@pytest.mark.parametrize("config", [SMALL, OTHER], ids=["small", "of two rows"])
@pytest.mark.parametrize("latency", [1, 60])
def test_traces_are_identical_event_for_event(
    config: AccelConfig, latency: int, tmp_path: Path
) -> None:
    timed = config.with_dram(latency_cycles=latency, bytes_per_cycle=4)
    library = build_simulator(config, CACHE, waves=True)
    for index in range(PROGRAMS):
        program, dram, bases = random_program(np.random.default_rng((7, index)), config)
        waves = tmp_path / f"{index}.vcd"
        RtlSimulator(timed, library).run(
            program, dram.copy(), bases, observe=Observation(waves=waves)
        )
        seen = rtl_timeline(waves, program)
        simulated = TimedSimulator(timed).run(program, dram, bases).timeline
        assert simulated is not None
        assert seen.start.tolist() == simulated.start.tolist()
        assert seen.end.tolist() == simulated.end.tolist()
        assert chrome_trace(program, seen, timed) == chrome_trace(program, simulated, timed)
        assert len(set(seen.start.tolist())) > len(program.instructions) // 2
