"""Both arms of the RTL on the same programs: nothing differs at their pins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from hardware.verilate import build_simulator
from tests.support.campaign import SMALL
from tests.support.cosim import CACHE
from tests.support.lockstep import arm_differences, build_fpga_arm
from tests.support.programs import random_program

pytestmark = [pytest.mark.slow, pytest.mark.needs_verilator]

PROGRAMS = 10
CONFIGS = {
    "small": SMALL,
    "saturating": replace(SMALL, batch=2, acc_bits=16, inp_bits=4, wgt_bits=4, vector_lanes=2),
}


@pytest.fixture(scope="module", params=CONFIGS)
def arms(request: pytest.FixtureRequest) -> tuple[AccelConfig, tuple[Path, Path]]:
    config = CONFIGS[request.param]
    say = print
    return config, (build_simulator(config, CACHE, say), build_fpga_arm(config, CACHE, say))


def test_the_arms_are_equal(arms: tuple[AccelConfig, tuple[Path, Path]]) -> None:
    config, libraries = arms
    for index in range(PROGRAMS):
        image = random_program(np.random.default_rng((9, index)), config)
        assert arm_differences(config, libraries, *image) == []
