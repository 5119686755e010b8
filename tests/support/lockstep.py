"""Both arms of the RTL, built and run on the same programs: no pin may differ in any cycle."""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.program import Program
from codesign.dtypes import Array
from codesign.sim.rtl import Limits, RtlSimulator
from codesign.sim.simulator import Outcome
from hardware.generate import ArmName, generate, ports
from hardware.verilate import HARNESS, build_library

CYCLES: Final = 1 << 16
"""Cycles whose pins are compared; longer programs are refused."""

LIMITS: Final = Limits(cycles=CYCLES, seconds=300.0, watchdog_cycles=CYCLES // 2)
TEMPLATE: Final = Path(__file__).with_name("lockstep.cpp")
RENAMED: Final = {"interrupt": "__SYM__interrupt"}
"""What Verilator calls pins that are words of some C++ compilers."""


def output_pins(config: AccelConfig) -> tuple[str, ...]:
    """Return the names of the pins that are compared: all outputs of the top module."""
    return tuple(str(pin["name"]) for pin in ports(config) if pin["direction"] == "output")


def build_arms(config: AccelConfig, cache: Path, say: Callable[[str], None]) -> tuple[Path, Path]:
    """Return the libraries of the simulation arm and the FPGA arm, building what is new."""
    return build_arm(config, "simulation", cache, say), build_arm(config, "fpga", cache, say)


def build_arm(config: AccelConfig, arm: ArmName, cache: Path, say: Callable[[str], None]) -> Path:
    """Return the library of one arm, building it where its Verilog or a harness is new."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="build-") as name:
        folder = Path(name)
        say(f"{arm} arm: generating Verilog")
        source, *_ = generate(config, folder / "rtl", arm=arm)
        harness = _harness(config)
        parts = (source.read_bytes(), HARNESS.read_bytes(), harness.encode())
        place = cache / f"{arm}-{hashlib.sha256(b''.join(parts)).hexdigest()[:32]}.so"
        if not place.is_file():
            written = folder / "lockstep.cpp"
            written.write_text(harness, encoding="utf-8")
            build_library(
                folder,
                config.digest,
                cache,
                lambda text: say(f"{arm} arm: {text}"),
                harness=written,
            ).rename(place)
    return place


def _harness(config: AccelConfig) -> str:
    pins = ", ".join(f"seen(top.{RENAMED.get(name, name)})" for name in output_pins(config))
    text = TEMPLATE.read_text(encoding="utf-8")
    return text.replace("@HARNESS@", str(HARNESS)).replace("@PINS@", pins)


@dataclass(frozen=True)
class _Seen:
    """What one arm did; `pins` is uint64[(cycles, output pins)]."""

    memory: Array
    pins: Array
    outcome: Outcome


def _run(
    config: AccelConfig, library: Path, program: Program, dram: Array, bases: tuple[int, ...]
) -> _Seen:
    simulator = RtlSimulator(config, library, LIMITS)
    observed = ctypes.CDLL(str(library.resolve()))
    observed.lockstep_cycles.restype = ctypes.c_uint64
    rows = np.zeros((CYCLES, len(output_pins(config))), dtype=np.uint64)
    observed.lockstep_observe(ctypes.c_void_p(rows.ctypes.data), ctypes.c_uint64(CYCLES))
    memory = dram.copy()
    outcome = simulator.run(program, memory, bases)
    cycles = observed.lockstep_cycles()
    observed.lockstep_observe(None, ctypes.c_uint64(0))
    return _Seen(memory, rows[:cycles], outcome)


def arm_differences(
    config: AccelConfig,
    libraries: tuple[Path, Path],
    program: Program,
    dram: Array,
    bases: tuple[int, ...],
) -> list[str]:
    """Run a program on two libraries of `build_arms`; return what differs.

    Memory, cycles, counters, and every output pin in every cycle of the run.
    """
    ours, theirs = (_run(config, library, program, dram, bases) for library in libraries)
    found = []
    if not np.array_equal(ours.memory, theirs.memory):
        found.append(f"{int((ours.memory != theirs.memory).sum())} bytes of memory differ")
    if len(ours.pins) != len(theirs.pins):
        found.append(f"{len(ours.pins)} and {len(theirs.pins)} cycles until the interrupt")
    shared = min(len(ours.pins), len(theirs.pins))
    differing = ours.pins[:shared] != theirs.pins[:shared]
    if differing.any():
        cycle, pin = (int(index) for index in np.argwhere(differing)[0])
        found.append(
            f"pin {output_pins(config)[pin]} differs in cycle {cycle}: "
            f"{int(ours.pins[cycle, pin]):#x} and {int(theirs.pins[cycle, pin]):#x}"
        )
    if ours.outcome.counters != theirs.outcome.counters:
        found.append("counters differ")
    if not shared or not (ours.pins.max(axis=0) != ours.pins.min(axis=0)).any():
        found.append("no pin ever moved")
    return found
