"""The Verilated RTL against both simulators: every byte, every cycle, every counter."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.presets import PRESETS
from hardware.verilate import build_simulator
from tests.support.cosim import CACHE, MEMORIES, compare
from tests.support.programs import random_config, random_program

pytestmark = pytest.mark.needs_verilator

QUICK_SEEDS = (3, 11)
PROGRAMS = 6


def agree(config: AccelConfig, programs: int, seed: int) -> None:
    library = build_simulator(config, CACHE)
    for index in range(programs):
        rng = np.random.default_rng((seed, index))
        program, dram, bases = random_program(rng, config)
        for name, behind in MEMORIES.items():
            result = compare(program, dram, bases, behind(config), library)
            assert not result.differences, (
                f"program {index} of seed {seed}, memory {name}:\n" + "\n".join(result.differences)
            )
            assert result.cycles > 0


@pytest.mark.parametrize("seed", QUICK_SEEDS)
def test_rtl_equals_both_simulators(seed: int) -> None:
    agree(random_config(np.random.default_rng(seed)), PROGRAMS, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 212))
def test_rtl_equals_both_simulators_on_many_configurations(seed: int) -> None:
    agree(random_config(np.random.default_rng(seed)), 25, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_rtl_equals_both_simulators_on_presets(name: str) -> None:
    agree(PRESETS[name], 10, 1)
