"""The host's end of a serial line, and what the user reads when something is wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from codesign.accel.presets import EDGE, TINY
from codesign.accel.registers import COUNTER_OFFSET, OFFSETS
from codesign.diagnostics import CodesignError
from codesign.sim.functional import FunctionalSimulator
from host_runtime import serial_link
from host_runtime.serial_device import RunLimits, SerialDevice
from host_runtime.serial_link import ATTEMPTS, SerialLink, open_line
from tests.support.fake_board import FakeBoard
from tests.support.programs import random_program


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_link, "SETTLE_SECONDS", 0.0)


def _flipped(frame: bytes, at: int) -> bytes:
    return frame[:at] + bytes([frame[at] ^ 0x40]) + frame[at + 1 :]


def test_memory_comes_back_as_it_was_written() -> None:
    board = FakeBoard(EDGE)
    with SerialLink(board) as link:
        data = np.random.default_rng(0).integers(0, 256, 5000, np.uint8).tobytes()
        link.write_memory(4096, data)
        assert link.read_memory(4096, len(data)) == data
        assert board.memory[4096:9096].tobytes() == data
        assert link.info.memory_bytes == board.memory.size
    assert board.is_closed


def test_damaged_and_lost_frames_are_sent_again() -> None:
    board = FakeBoard(EDGE)
    link = SerialLink(board)
    first = board.requests
    spoilt = {
        first: lambda frame: _flipped(frame, 20),  # data
        first + 2: lambda frame: _flipped(frame, 4),  # head: no answer
        first + 4: lambda _: b"",
    }
    board.spoil_request = lambda number, frame: spoilt.get(number, lambda same: same)(frame)
    board.spoil_reply = lambda number, frame: (
        _flipped(frame, 2) if number == first + 6 else frame[:3] if number == first + 7 else frame
    )
    data = bytes(range(256)) * 12
    link.write_memory(0, data)
    assert link.read_memory(0, len(data)) == data
    assert link.repetitions == 5


def test_lost_answer_does_not_start_the_accelerator_twice() -> None:
    board = FakeBoard(EDGE)
    link = SerialLink(board)
    board.status_after_run = 0
    first = board.requests
    board.spoil_reply = lambda number, frame: b"" if number == first else frame
    link.write_register("control", 1)
    assert link.repetitions == 1
    assert board.starts == 1


def test_silent_board_is_named_with_what_to_check() -> None:
    board = FakeBoard(EDGE)
    board.spoil_request = lambda _, __: b""
    with pytest.raises(CodesignError, match=r"does not answer a request \(info\)") as caught:
        SerialLink(board)
    assert f"{ATTEMPTS} attempts: no answer" in str(caught.value)
    assert board.requests == ATTEMPTS


def test_line_that_damages_everything_is_named() -> None:
    board = FakeBoard(EDGE)
    link = SerialLink(board)
    board.spoil_reply = lambda _, frame: _flipped(frame, len(frame) - 1)
    with pytest.raises(CodesignError, match="an answer with a wrong checksum"):
        link.read_register("status")


def test_refused_request_is_not_repeated() -> None:
    board = FakeBoard(EDGE)
    link = SerialLink(board)
    before = board.requests
    with pytest.raises(CodesignError, match="refuses a request"):
        link.read_memory(board.memory.size, 8)
    assert board.requests == before + 1


def test_port_that_is_not_there_is_named() -> None:
    with pytest.raises(CodesignError, match="cannot open serial port '/dev/nonesuch'"):
        open_line("/dev/nonesuch")


@pytest.mark.parametrize("register", ["id", "version"])
def test_other_accelerator_version_is_refused(register: str) -> None:
    board = FakeBoard(EDGE)
    board.registers[OFFSETS[register]] = 77
    with pytest.raises(CodesignError, match="the board's accelerator is not of this version"):
        SerialLink(board)


def test_other_protocol_is_refused() -> None:
    board = FakeBoard(EDGE)
    board.identity = 0
    with pytest.raises(CodesignError, match="no board of this version"):
        SerialLink(board)


def test_other_configuration_is_refused_before_anything_runs() -> None:
    board = FakeBoard(TINY)
    with pytest.raises(CodesignError, match="another configuration"):
        SerialDevice(EDGE, SerialLink(board))
    assert board.starts == 0


def test_program_runs_with_its_memory_segments_and_counters() -> None:
    config = TINY
    program, dram, bases = random_program(np.random.default_rng(5), config)
    expected = dram.copy()
    counters = FunctionalSimulator(config).run(program, expected, bases)
    device = SerialDevice(config, SerialLink(FakeBoard(config)))
    outcome = device.run(program, dram, bases)
    assert np.array_equal(dram, expected)
    assert outcome.counters == dataclasses.replace(counters)
    assert counters.instructions == len(program.instructions)


def test_program_too_large_for_the_board_is_refused_with_both_sizes() -> None:
    program, dram, bases = random_program(np.random.default_rng(5), TINY)
    board = FakeBoard(TINY, memory_bytes=8192)
    with pytest.raises(CodesignError, match="does not fit into the board's memory") as caught:
        SerialDevice(TINY, SerialLink(board)).run(program, dram, bases)
    assert "the board has 8,192" in str(caught.value)
    assert board.starts == 0


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (0x102, "memory refused a read"),
        (0x202, "memory refused a write"),
        (0x302, "ended with error opcode"),
        (0x402, "stands still: gemm waits"),
    ],
)
def test_error_of_the_hardware_is_named(status: int, sentence: str) -> None:
    program, dram, bases = random_program(np.random.default_rng(5), TINY)
    board = FakeBoard(TINY)
    board.status_after_run = status
    board.registers[OFFSETS["waiting"]] = 1
    with pytest.raises(CodesignError, match=sentence):
        SerialDevice(TINY, SerialLink(board)).run(program, dram, bases)


def test_run_without_end_is_given_up() -> None:
    program, dram, bases = random_program(np.random.default_rng(5), TINY)
    board = FakeBoard(TINY)
    board.status_after_run = 1
    limits = RunLimits(seconds=0.0, poll_seconds=0.0)
    with pytest.raises(CodesignError, match="the board is not done after"):
        SerialDevice(TINY, SerialLink(board), limits).run(program, dram, bases)
    assert board.registers[OFFSETS["control"]] == 2


def test_counters_lie_in_one_row_of_registers() -> None:
    """What the device reads at once is the map's whole part of counters."""
    assert min(offset for name, offset in OFFSETS.items() if name == "cycles_lo") == COUNTER_OFFSET
