"""The exported Verilog in a four-state simulator, running a program: what is ever x at its pins.

The bench around it is written from the list of ports. Inputs are x wherever AXI says nothing of
them. Registers lose the initial values that the exported text gives them: every register and memory
is x until the reset, or a write, makes it known.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig
from codesign.accel.encoding import encode_program
from codesign.accel.program import Program
from codesign.accel.registers import OFFSETS, Control
from codesign.sim.simulator import program_base
from hardware.generate import TOP_NAME, generate, ports
from tests.support.lint import icarus

TEMPLATE: Final = Path(__file__).with_name("four_state.sv")
LIMIT_CYCLES: Final = 200_000
INITIAL_VALUE: Final = re.compile(r"^(\s*(?:output )?reg [^=;\n]*?) = [^;]+;", re.MULTILINE)


@dataclass(frozen=True)
class FourState:
    """What a run showed: output pins that were x at some time after reset, and what it computed."""

    unknown_pins: tuple[str, ...]
    dram: NDArray[np.uint8]
    status: int
    cycles: int


def run_four_state(
    config: AccelConfig,
    program: Program,
    dram: NDArray[np.uint8],
    bases: Sequence[int],
    folder: Path,
) -> FourState:
    """Export a configuration into a folder, without initial values, and run a program on it.

    Raises
    ------
    CodesignError
        Icarus is not installed.
    """
    source, *_ = generate(config, folder)
    text = source.read_text(encoding="utf-8")
    source.write_text(without_initial_values(text), encoding="utf-8")
    return run_text(source, config, program, dram, bases)


def without_initial_values(text: str) -> str:
    """Return Verilog whose registers are declared without a value.

    Raises
    ------
    AssertionError
        None had one, or something else gives a value before the first clock edge.
    """
    stripped, count = INITIAL_VALUE.subn(r"\1;", text)
    assert count > 0, "no register has an initial value: is the text from another tool?"
    assert not re.search(r"^\s*initial\b", stripped, re.MULTILINE), "an initial block is left"
    return stripped


def run_text(
    source: Path,
    config: AccelConfig,
    program: Program,
    dram: NDArray[np.uint8],
    bases: Sequence[int],
) -> FourState:
    """Run a program on a file of Verilog; its folder gets the bench and the memory."""
    folder = source.parent
    image = np.frombuffer(encode_program(program.instructions, config), dtype=np.uint8)
    base = program_base(dram)
    memory = np.zeros(-(-(base + image.size) // 4096) * 4096, dtype=np.uint8)
    memory[: dram.size], memory[base : base + image.size] = dram, image
    (folder / "memory.hex").write_text("\n".join(f"{byte:02x}" for byte in memory))
    bench = folder / "bench.sv"
    bench.write_text(_bench(config, program, bases, base, memory.size), encoding="utf-8")
    run = folder / "run.vvp"
    _tool([icarus("iverilog"), "-g2012", "-o", str(run), "-s", "bench", str(bench), str(source)])
    said = _tool([icarus("vvp"), "-n", str(run)], folder)
    found = {name: int(value) for name, value in re.findall(r"^(status|cycles) (\d+)$", said, re.M)}
    if "status" not in found:
        raise AssertionError(f"the four-state run did not end:\n{said[-2000:]}")
    after = (folder / "after.hex").read_text(encoding="utf-8").splitlines()
    bytes_after = " ".join(line for line in after if not line.startswith("//")).split()[: dram.size]
    unknown = set(re.findall(r"^unknown (\S+)", said, re.M))
    if any("x" in byte.lower() for byte in bytes_after):
        unknown.add("memory")
    result = np.array(
        [int(byte, 16) if "x" not in byte.lower() else 0 for byte in bytes_after], dtype=np.uint8
    )
    return FourState(tuple(sorted(unknown)), result, found["status"], found["cycles"])


def _tool(command: Sequence[str], folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def _bench(
    config: AccelConfig, program: Program, bases: Sequence[int], base: int, size: int
) -> str:
    pins = ports(config)
    outputs = [pin["name"] for pin in pins if pin["direction"] == "output"]
    writes = [
        ("instructions", len(program.instructions)),
        ("program_lo", base),
        *((f"segment{index}_lo", segment) for index, segment in enumerate(bases)),
        ("control", Control.START | Control.INTERRUPT_ENABLE),
    ]
    parts = {
        "DECLARATIONS": _declarations(pins),
        "CONNECTIONS": ",\n    ".join(f".{pin['name']}({pin['name']})" for pin in pins),
        "CHECKS": "\n      ".join(_check(name) for name in outputs),
        "WRITES": "\n    ".join(f"write({OFFSETS[name]}, {value});" for name, value in writes),
        "READS": "\n    ".join(f"read({offset});" for offset in OFFSETS.values()),
        "STATUS": str(OFFSETS["status"]),
        "CYCLES": str(OFFSETS["cycles_lo"]),
        "TOP": TOP_NAME,
        "BYTES": str(config.bus_bytes),
        "SIZE": str(size),
        "LIMIT": str(LIMIT_CYCLES),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, value in parts.items():
        text = text.replace(f"@{name}@", value)
    return text


def _declarations(pins: Sequence[dict[str, object]]) -> str:
    return "\n  ".join(
        f"{'wire' if pin['direction'] == 'output' else 'reg'} [{int(str(pin['width'])) - 1}:0] "
        f"{pin['name']};"
        for pin in pins
    )


def _check(name: str) -> str:
    return f'if ((^{name}) === 1\'bx) $display("unknown {name} in cycle %0d", now);'
