"""The event simulator against the document written down cycle by cycle."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.counters import COUNTED_UNITS, STATES
from codesign.sim.cycle import CycleSimulator
from tests.support.cosim import MEMORIES
from tests.support.cycle_model import CycleModel
from tests.support.programs import random_config, random_program

PROGRAM_BASE = 1 << 20
BURSTS = 100_000


def agree(program, bases, config: AccelConfig) -> None:
    expected = CycleModel(program.instructions, config, bases, PROGRAM_BASE).run()
    found = CycleSimulator(config).run(program, bases, program_base=PROGRAM_BASE, burst_log=BURSTS)
    assert [tuple(burst) for burst in found.bursts.tolist()] == expected.bursts
    starts = dict(enumerate(found.timeline.start.tolist()))
    assert starts == expected.starts
    counters = found.counters.as_dict()
    for unit in COUNTED_UNITS:
        states = {name: counters[f"{unit}_{name}"] for name in STATES}
        assert states == {name: expected.counters[unit][name] for name in STATES}, unit
        assert sum(states.values()) == found.cycles
    assert found.cycles == expected.cycles


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("seed", range(4))
def test_event_simulator_equals_the_document(seed: int, memory: str) -> None:
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    program, _, bases = random_program(rng, config)
    agree(program, bases, MEMORIES[memory](config))


@pytest.mark.slow
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("seed", range(100, 160))
def test_event_simulator_equals_the_document_on_many_programs(seed: int, memory: str) -> None:
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    program, _, bases = random_program(rng, config, length=80)
    agree(program, bases, MEMORIES[memory](config))
