"""Both arms of the RTL, built and run on the same programs: nothing at their pins may differ."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from codesign.accel.config import AccelConfig
from codesign.accel.program import Program
from codesign.dtypes import Array
from codesign.sim.rtl import Limits, Observation, RtlSimulator
from hardware.generate import generate
from hardware.verilate import HARNESS, build_library

BURSTS = 100_000
LIMITS = Limits(cycles=10_000_000, seconds=300.0, watchdog_cycles=200_000)


def build_fpga_arm(config: AccelConfig, cache: Path, say: Callable[[str], None]) -> Path:
    """Return the simulator library of the FPGA arm, building it where its Verilog is new."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="build-") as name:
        folder = Path(name)
        say("FPGA arm: generating Verilog")
        source, *_ = generate(config, folder / "rtl")
        content = hashlib.sha256(source.read_bytes() + HARNESS.read_bytes()).hexdigest()
        place = cache / f"fpga-{content[:32]}.so"
        if not place.is_file():
            build_library(
                folder, config.digest, cache, lambda text: say(f"FPGA arm: {text}")
            ).rename(place)
    return place


def arm_differences(
    config: AccelConfig,
    libraries: tuple[Path, Path],
    program: Program,
    dram: Array,
    bases: tuple[int, ...],
) -> list[str]:
    """Run a program on two libraries; return what differs: memory, bursts, cycles, counters.

    A burst is compared with its cycle, its kind, its address and its beats. The memory takes and
    gives beats at cycles that follow from these, and stops where W data is late or changes: so the
    pins of the DRAM port are compared cycle by cycle.
    """
    outcomes, memories, logs = [], [], []
    for library in libraries:
        memory, bursts = dram.copy(), np.zeros((BURSTS, 4), dtype=np.int64)
        outcomes.append(
            RtlSimulator(config, library, LIMITS).run(
                program, memory, bases, observe=Observation(bursts=bursts)
            )
        )
        memories.append(memory)
        logs.append(bursts)
    found = []
    if not np.array_equal(memories[0], memories[1]):
        found.append(f"{int((memories[0] != memories[1]).sum())} bytes of memory differ")
    if not np.array_equal(logs[0], logs[1]):
        first = int(np.flatnonzero((logs[0] != logs[1]).any(axis=1))[0])
        found.append(f"burst {first} differs: {logs[0][first]} and {logs[1][first]}")
    if outcomes[0].cycles != outcomes[1].cycles:
        found.append(f"{outcomes[0].cycles} and {outcomes[1].cycles} cycles")
    if outcomes[0].counters != outcomes[1].counters:
        found.append("counters differ")
    if not (logs[0][:, 3] > 0).any():
        found.append("no burst was seen")
    return found
