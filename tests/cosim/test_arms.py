"""Both arms of the RTL on the same programs: nothing differs at their pins."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from codesign.accel.config import AccelConfig
from hardware.rtl import accelerator
from hardware.rtl.axi_master import AxiMaster
from tests.support.campaign import SMALL
from tests.support.cosim import CACHE
from tests.support.lockstep import arm_differences, build_arm, build_arms, output_pins
from tests.support.programs import random_program

pytestmark = [pytest.mark.slow, pytest.mark.needs_verilator]

PROGRAMS = 10
FAULTY_BURST = 6
CONFIGS = {
    "small": SMALL,
    "saturating": replace(SMALL, batch=2, acc_bits=16, inp_bits=4, wgt_bits=4, vector_lanes=2),
}


@pytest.fixture(scope="module", params=CONFIGS)
def arms(request: pytest.FixtureRequest) -> tuple[AccelConfig, tuple[Path, Path]]:
    config = CONFIGS[request.param]
    return config, build_arms(config, CACHE, print)


def test_the_arms_are_equal(arms: tuple[AccelConfig, tuple[Path, Path]]) -> None:
    config, libraries = arms
    for index in range(PROGRAMS):
        image = random_program(np.random.default_rng((9, index)), config)
        assert arm_differences(config, libraries, *image) == []


def test_a_pin_that_differs_is_named_with_its_cycle(tmp_path: Path) -> None:
    """The second machine moves a pin that the memory does not look at."""

    class Faulty(AxiMaster):
        def elaborate(self, platform: object) -> Module:
            m: Module = super().elaborate(platform)
            count_r = Signal(4)
            with m.If(self.fetch_grant | self.load_grant):
                m.d.sync += count_r.eq(count_r + 1)
            m.d.comb += self.axi_arqos.eq(count_r == FAULTY_BURST)
            return m

    right = build_arm(SMALL, "simulation", CACHE, print)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerator, "AxiMaster", Faulty)
        wrong = build_arm(SMALL, "simulation", tmp_path, print)
    image = random_program(np.random.default_rng((9, 0)), SMALL)
    (sentence,) = arm_differences(SMALL, (right, wrong), *image)
    assert re.fullmatch(r"pin m_axi_arqos differs in cycle \d+: 0x0 and 0x1", sentence)


def test_all_outputs_are_compared() -> None:
    pins = output_pins(SMALL)
    assert {"m_axi_wdata", "m_axi_araddr", "s_axi_rdata", "interrupt"} <= set(pins)
    assert len(pins) == 35
