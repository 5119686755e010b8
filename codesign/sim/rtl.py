"""The Verilated RTL behind the simulators' protocol: a shared library, loaded by its path.

`hardware.verilate` builds the library and `hardware/harness.cpp` states its C interface; this
module knows the interface and the register map, and nothing of the circuit.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig
from codesign.accel.counters import COUNTED_UNITS, COUNTER_NAMES, Counters
from codesign.accel.encoding import encode_program
from codesign.accel.isa import Unit
from codesign.accel.memory import DramRule
from codesign.accel.program import Program, require_digest
from codesign.accel.registers import (
    ERROR_SHIFT,
    OFFSETS,
    Control,
    ErrorCode,
    Status,
)
from codesign.accel.timing import READ_LEAD, WRITE_LEAD
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.sim.simulator import Outcome, Progress, program_base

HARNESS_ABI: Final = 1
"""`ABI_VERSION` of the harness that this module speaks to."""

SLICE_CYCLES: Final = 1 << 20
"""Cycles between two looks at the clock on the wall."""

WATCHDOG_CYCLES: Final = 1 << 24
"""Cycles without progress after which the hardware ends a run."""

OBSERVED_CYCLES: Final = 1000
"""Cycles over which a run that takes too long is observed, to name who waits."""

_INTERRUPT: Final = 1
_FAILED: Final = 2


class _Timing(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "latency",
            "interval",
            "banks",
            "row_bytes",
            "miss_cycles",
            "read_lead",
            "write_lead",
        )
    )


class _Memory(ctypes.Structure):
    _fields_ = (
        ("dram", ctypes.c_void_p),
        ("dram_bytes", ctypes.c_uint64),
        ("program", ctypes.c_void_p),
        ("program_base", ctypes.c_uint64),
        ("program_bytes", ctypes.c_uint64),
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run is given up: cycles of the machine, seconds on the wall, cycles of standstill."""

    cycles: int = 10**10
    seconds: float = 1800.0
    watchdog_cycles: int = WATCHDOG_CYCLES


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What to record of a run, for a diagnosis.

    `waves` is the VCD file to write, by a library that was built for it. `bursts` is
    int64[(n, 4)] and is filled with the first n bursts: cycle, 0 read or 1 write, address, beats.
    """

    waves: Path | None = None
    bursts: Array | None = None


@final
class RtlSimulator:
    """Runs programs on the Verilated accelerator of one configuration.

    Raises
    ------
    CodesignError
        A library that cannot be loaded, or was built for another configuration or interface.
    """

    name: Final = "rtl"

    def __init__(self, config: AccelConfig, library: Path, limits: Limits | None = None) -> None:
        self._config = config
        self._limits = limits or Limits()
        self._library = _load(library, config)

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
        observe: Observation | None = None,
    ) -> Outcome:
        """Run a program, as `Simulator.run` promises; without timeline.

        Raises
        ------
        CodesignError
            Also: an access outside the memory, a broken AXI rule, an error that the hardware
            reports, or a run beyond the limits, with the units that wait.
        """
        require_digest(program, self._config)
        image = np.frombuffer(encode_program(program.instructions, self._config), dtype=np.uint8)
        with self._machine(dram, image, observe or Observation()) as machine:
            machine.start(program, program_base(dram), bases, self._limits.watchdog_cycles)
            machine.wait(self._limits, progress)
            machine.check()
            counters = machine.counters()
        return Outcome(cycles=counters.cycles, counters=counters)

    @contextmanager
    def _machine(
        self, dram: NDArray[np.uint8], image: NDArray[np.uint8], observe: Observation
    ) -> Iterator[_Machine]:
        if dram.dtype != np.uint8 or not dram.flags.c_contiguous or not dram.flags.writeable:
            raise TypeError("dram must be a writeable contiguous array of uint8")
        memory = _Memory(
            dram=dram.ctypes.data,
            dram_bytes=dram.size,
            program=image.ctypes.data,
            program_base=program_base(dram),
            program_bytes=image.size,
        )
        rule = DramRule.of(self._config)
        timing = _Timing(
            latency=rule.latency,
            interval=rule.interval,
            banks=rule.banks,
            row_bytes=rule.row_bytes,
            miss_cycles=rule.miss_cycles,
            read_lead=READ_LEAD,
            write_lead=WRITE_LEAD,
        )
        handle = self._library.accel_new(ctypes.byref(memory), ctypes.byref(timing))
        try:
            machine = _Machine(self._library, handle)
            machine.observe(observe)
            yield machine
        finally:
            self._library.accel_free(handle)


@final
class _Machine:
    """One accelerator in simulation: its registers and its clock."""

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self._library = library
        self._handle = handle

    def observe(self, observe: Observation) -> None:
        if observe.bursts is not None:
            if observe.bursts.dtype != np.int64 or not observe.bursts.flags.c_contiguous:
                raise TypeError("bursts must be a contiguous array of int64")
            self._library.accel_log(self._handle, observe.bursts.ctypes.data, len(observe.bursts))
        if observe.waves is not None and not self._library.accel_waves(
            self._handle, str(observe.waves).encode()
        ):
            raise CodesignError.of(
                "this simulator library cannot write waves",
                help="build it with waves: build_simulator(..., waves=True)",
            )

    def write(self, register: str, value: int) -> None:
        if not self._library.accel_write(self._handle, OFFSETS[register], value & 0xFFFFFFFF):
            raise self._error()

    def write_wide(self, register: str, value: int) -> None:
        self.write(f"{register}_lo", value)
        self.write(f"{register}_hi", value >> 32)

    def read(self, register: str) -> int:
        value = ctypes.c_uint32()
        if not self._library.accel_read(self._handle, OFFSETS[register], ctypes.byref(value)):
            raise self._error()
        return value.value

    def read_wide(self, register: str) -> int:
        return self.read(f"{register}_lo") | self.read(f"{register}_hi") << 32

    def start(
        self, program: Program, base: int, bases: Sequence[int], watchdog_cycles: int
    ) -> None:
        self.write("instructions", len(program.instructions))
        self.write_wide("program", base)
        for index, address in enumerate(bases):
            self.write_wide(f"segment{index}", address)
        self.write("watchdog", watchdog_cycles)
        self.write("control", Control.START | Control.INTERRUPT_ENABLE)

    def wait(self, limits: Limits, progress: Progress | None) -> None:
        """Run until the interrupt; raise CodesignError at a limit or a mistake."""
        begin = time.monotonic()
        done = 0
        while True:
            step = min(SLICE_CYCLES, limits.cycles - done)
            before = self._library.accel_cycle(self._handle)
            outcome = self._library.accel_run(self._handle, step)
            done += self._library.accel_cycle(self._handle) - before
            seconds = time.monotonic() - begin
            if outcome == _FAILED:
                raise self._error()
            if progress is not None:
                progress(done, done / max(seconds, 1e-9))
            if outcome == _INTERRUPT:
                return
            if done >= limits.cycles or seconds >= limits.seconds:
                raise self._late(done, seconds)

    def check(self) -> None:
        """Raise CodesignError where the hardware ended the run with an error."""
        status = self.read("status")
        code = ErrorCode(status >> ERROR_SHIFT & 0xF)
        if code is ErrorCode.NONE and status & Status.DONE:
            return
        match code:
            case ErrorCode.WATCHDOG:
                unit = self.read("waiting")
                name = Unit(unit).name.lower() if unit < len(Unit) else "no unit"
                raise CodesignError.of(
                    f"the accelerator stands still: {name} waits",
                    found="the watchdog ended the run; the first instruction not dispatched is "
                    f"at {self.read_wide('error'):#x}",
                )
            case ErrorCode.READ | ErrorCode.WRITE:
                raise CodesignError.of(
                    f"the memory refused a {code.name.lower()}",
                    found=f"the burst at {self.read_wide('error'):#x}",
                )
            case _:
                raise CodesignError.of(
                    f"the accelerator ended with error {code.name.lower()}",
                    found=f"status {status:#x}, the instruction at {self.read_wide('error'):#x}",
                )

    def counters(self) -> Counters:
        return Counters.of({name: self.read_wide(name) for name in COUNTER_NAMES})

    def _error(self) -> CodesignError:
        text = self._library.accel_error(self._handle).decode()
        return CodesignError.of("the RTL simulation broke a rule", found=text)

    def _late(self, cycles: int, seconds: float) -> CodesignError:
        """Return the error of a run beyond its limits: observe a little longer who waits."""
        before = self.counters()
        self._library.accel_run(self._handle, OBSERVED_CYCLES)
        after = self.counters()
        waiting = [
            f"{unit} waits for {what}"
            for unit in COUNTED_UNITS
            for what, state in (("a token", "wait_token"), ("memory", "wait_memory"))
            if _grown(before, after, f"{unit}_{state}") >= OBSERVED_CYCLES // 2
        ]
        return CodesignError.of(
            f"the RTL simulation is not done after {cycles} cycles and {seconds:.1f} s",
            found="; ".join(waiting) or "no unit waits: the program is long",
            help="raise the limits, or check the program's tokens",
        )


def _grown(before: Counters, after: Counters, name: str) -> int:
    return int(getattr(after, name)) - int(getattr(before, name))


def _load(path: Path, config: AccelConfig) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise CodesignError.of(
            f"cannot load simulator library {str(path)!r}", found=str(error)
        ) from None
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function: Callable[..., Any] = getattr(library, name)
        except AttributeError:
            raise CodesignError.of(
                f"{str(path)!r} is no simulator library", found=f"it has no function {name}"
            ) from None
        function.restype = result  # type: ignore[attr-defined]  # ctypes functions have them
        function.argtypes = arguments  # type: ignore[attr-defined]
    abi = library.accel_abi()
    digest = library.accel_digest().decode()
    if abi != HARNESS_ABI or digest != config.digest:
        raise CodesignError.of(
            f"simulator library {str(path)!r} is for another configuration",
            found=f"it has interface {abi} and digest {digest[:12]}, "
            f"expected {HARNESS_ABI} and {config.digest[:12]}",
            help="build the simulator of this configuration",
        )
    return library


_POINTER: Final = ctypes.c_void_p
_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "accel_abi": (ctypes.c_uint32, []),
    "accel_digest": (ctypes.c_char_p, []),
    "accel_new": (_POINTER, [_POINTER, _POINTER]),
    "accel_free": (None, [_POINTER]),
    "accel_write": (ctypes.c_int, [_POINTER, ctypes.c_uint32, ctypes.c_uint32]),
    "accel_read": (ctypes.c_int, [_POINTER, ctypes.c_uint32, _POINTER]),
    "accel_run": (ctypes.c_int, [_POINTER, ctypes.c_uint64]),
    "accel_cycle": (ctypes.c_uint64, [_POINTER]),
    "accel_error": (ctypes.c_char_p, [_POINTER]),
    "accel_log": (None, [_POINTER, _POINTER, ctypes.c_uint64]),
    "accel_logged": (ctypes.c_uint64, [_POINTER]),
    "accel_waves": (ctypes.c_int, [_POINTER, ctypes.c_char_p]),
}
