"""The whole board from its serial pins: bits and cycles of the simulators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.presets import TINY
from codesign.accel.registers import OFFSETS
from codesign.diagnostics import CodesignError
from codesign.sim.composed import TimedSimulator
from experiments.road.build import compile_accel, quantize_subject
from experiments.road.devices import simulator_cache
from experiments.road.subject import subject
from hardware.boards.simulate import BoardSimulation, build_board_simulator, simulated_plan
from host_runtime.serial_device import SerialDevice
from host_runtime.serial_link import SerialLink, open_line
from host_runtime.session import Session
from tests.support.programs import random_program

pytestmark = [pytest.mark.slow, pytest.mark.needs_verilator]

CONFIG: AccelConfig = TINY


@pytest.fixture(scope="module")
def link() -> Iterator[SerialLink]:
    plan = simulated_plan(CONFIG)
    library = build_board_simulator(plan, simulator_cache(), lambda _: None)
    with (
        BoardSimulation(plan, library) as board,
        SerialLink(open_line(board.port, reply_seconds=10.0)) as opened,
    ):
        yield opened


@pytest.mark.parametrize("seed", range(3))
def test_random_program_gives_the_bytes_and_the_cycles(link: SerialLink, seed: int) -> None:
    program, dram, bases = random_program(np.random.default_rng(seed), CONFIG)
    expected = dram.copy()
    wanted = TimedSimulator(simulated_plan(CONFIG).timed_config).run(program, expected, bases)
    found = SerialDevice(CONFIG, link).run(program, dram, bases)
    assert np.array_equal(dram, expected)
    assert found.counters == wanted.counters


def test_digits_network_runs_on_the_board(link: SerialLink) -> None:
    judged = subject("digits", samples=1)
    executable = compile_accel(
        judged, quantize_subject(judged, lambda _: None), CONFIG, lambda _: None
    )
    timed = TimedSimulator(simulated_plan(CONFIG).timed_config)
    expected = Session(executable, timed).trace(judged.evaluation[0])
    found = Session(executable, SerialDevice(CONFIG, link)).trace(judged.evaluation[0])
    for name, array in expected.tensors.items():
        assert np.array_equal(found.tensors[name], array), name
    assert found.profile.cycles == expected.profile.cycles


def test_burst_outside_the_memory_ends_the_run(link: SerialLink) -> None:
    program, dram, bases = random_program(np.random.default_rng(1), CONFIG)
    outside = (link.info.memory_bytes, *bases[1:])
    with pytest.raises(CodesignError, match="memory refused a read"):
        SerialDevice(CONFIG, link).run(program, dram, outside)


def test_other_configuration_is_refused(link: SerialLink) -> None:
    with pytest.raises(CodesignError, match="another configuration"):
        SerialDevice(replace(CONFIG, queue_depth=8), link)


def test_board_hears_again_after_a_damaged_request(link: SerialLink) -> None:
    """A broken head makes the board deaf until the line has been silent."""
    link.write_register("watchdog", 77)
    link._line.write(b"\xa5\x21\x00\x00")
    assert link.read_register("watchdog") == 77
    assert OFFSETS["watchdog"] == 0x20
