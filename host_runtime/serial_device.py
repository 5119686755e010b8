"""Runs accelerator programs on a board: the simulators' protocol over a serial link."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig
from codesign.accel.counters import COUNTER_NAMES, Counters
from codesign.accel.encoding import encode_program
from codesign.accel.isa import Unit
from codesign.accel.program import Program, require_digest
from codesign.accel.registers import (
    COUNTER_OFFSET,
    ERROR_SHIFT,
    Control,
    ErrorCode,
    Status,
    digest_word,
)
from codesign.diagnostics import CodesignError
from codesign.sim.simulator import Outcome, Progress, program_base
from host_runtime.serial_link import SerialLink

WATCHDOG_CYCLES: Final = 1 << 24
"""Cycles without progress after which the hardware ends a run."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """When a run is given up, and how often the board is asked whether it is done."""

    seconds: float = 300.0
    poll_seconds: float = 0.002
    watchdog_cycles: int = WATCHDOG_CYCLES


@final
class SerialDevice:
    """A board as a device of sessions: values and cycles, from the circuit.

    Parameters
    ----------
    config
        What the board's accelerator shall be; clock and memory behind the bus are the board's.
    link
        The line to it.

    Raises
    ------
    CodesignError
        The board's accelerator has another configuration.
    """

    name: Final = "board"

    def __init__(
        self, config: AccelConfig, link: SerialLink, limits: RunLimits | None = None
    ) -> None:
        self._config, self._link = config, link
        self._limits = limits or RunLimits()
        found, expected = link.read_register("digest"), digest_word(config)
        if found != expected:
            raise CodesignError.of(
                "the board holds an accelerator of another configuration",
                found=f"its digest begins with {found:08x}, expected {expected:08x}",
                help="load the bitstream of this configuration, or compile for the board's",
            )

    @property
    def config(self) -> AccelConfig:
        """The configuration of the board's accelerator."""
        return self._config

    def run(
        self,
        program: Program,
        dram: NDArray[np.uint8],
        bases: Sequence[int],
        progress: Progress | None = None,
    ) -> Outcome:
        """Run a program, as `Simulator.run` promises; without timeline.

        Raises
        ------
        CodesignError
            Also: memory and program are more than the board has, the line fails, an error that the
            hardware reports, or a run beyond the limits.
        """
        require_digest(program, self._config)
        base = program_base(dram)
        image = encode_program(program.instructions, self._config)
        self._require_room(base + len(image))
        self._link.write_memory(0, self._whole_beats(dram.tobytes()))
        self._link.write_memory(base, self._whole_beats(image))
        self._start(program, base, bases)
        self._wait(progress)
        self._check()
        dram[:] = self._read_back(dram.size)
        counters = self._counters()
        return Outcome(cycles=counters.cycles, counters=counters)

    def _require_room(self, needed: int) -> None:
        present = self._link.info.memory_bytes
        if needed > present:
            raise CodesignError.of(
                "the program does not fit into the board's memory",
                found=f"it needs {needed:,} bytes with its data, the board has {present:,}",
                help="choose a smaller network, or a board with more memory",
            )

    def _whole_beats(self, data: bytes) -> bytes:
        return data + bytes(-len(data) % self._config.bus_bytes)

    def _read_back(self, size: int) -> NDArray[np.uint8]:
        whole = -(-size // self._config.bus_bytes) * self._config.bus_bytes
        return np.frombuffer(self._link.read_memory(0, whole), np.uint8)[:size]

    def _write_wide(self, register: str, value: int) -> None:
        self._link.write_register(f"{register}_lo", value)
        self._link.write_register(f"{register}_hi", value >> 32)

    def _start(self, program: Program, base: int, bases: Sequence[int]) -> None:
        self._link.write_register("instructions", len(program.instructions))
        self._write_wide("program", base)
        for index, address in enumerate(bases):
            self._write_wide(f"segment{index}", address)
        self._link.write_register("watchdog", self._limits.watchdog_cycles)
        self._link.write_register("control", Control.START | Control.INTERRUPT_ENABLE)

    def _wait(self, progress: Progress | None) -> None:
        begin = time.monotonic()
        while not self._link.read_register("status") & Status.DONE:
            seconds = time.monotonic() - begin
            if seconds > self._limits.seconds:
                self._link.write_register("control", Control.ABORT)
                raise CodesignError.of(f"the board is not done after {seconds:.1f} s")
            if progress is not None:
                cycles = self._link.read_register("cycles_lo")
                progress(cycles, cycles / max(seconds, 1e-9))
            time.sleep(self._limits.poll_seconds)

    def _check(self) -> None:
        """Raise CodesignError where the hardware ended the run with an error."""
        status = self._link.read_register("status")
        code = ErrorCode(status >> ERROR_SHIFT & 0xF)
        match code:
            case ErrorCode.NONE:
                return
            case ErrorCode.WATCHDOG:
                unit = self._link.read_register("waiting")
                name = Unit(unit).name.lower() if unit < len(Unit) else "no unit"
                raise CodesignError.of(
                    f"the board's accelerator stands still: {name} waits",
                    found="the watchdog ended the run; the first instruction not dispatched is "
                    f"at {self._link.read_register('error_lo'):#x}",
                )
            case ErrorCode.READ | ErrorCode.WRITE:
                raise CodesignError.of(
                    f"the board's memory refused a {code.name.lower()}",
                    found=f"the burst at {self._link.read_register('error_lo'):#x}",
                )
            case _:
                raise CodesignError.of(
                    f"the board's accelerator ended with error {code.name.lower()}",
                    found=f"status {status:#x}, the instruction at "
                    f"{self._link.read_register('error_lo'):#x}",
                )

    def _counters(self) -> Counters:
        words = self._link.read_registers(COUNTER_OFFSET, 2 * len(COUNTER_NAMES))
        return Counters.of(
            {
                name: words[2 * index] | words[2 * index + 1] << 32
                for index, name in enumerate(COUNTER_NAMES)
            }
        )
