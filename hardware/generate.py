"""Configuration to Verilog: the RTL as one file, with what tools and drivers want to know of it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, assert_never

from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil
from amaranth.hdl import Shape
from amaranth.lib.wiring import In

from codesign.accel.config import AccelConfig
from codesign.accel.export import contract_header
from codesign.accel.presets import PRESETS, preset
from codesign.diagnostics import CodesignError
from hardware.explicit_widths import explicit_widths
from hardware.rtl.accelerator import Top, top_members
from hardware.rtl.arm import Arm, Reset

TOP_NAME = "accel"
"""Name of the top module."""

ArmName: TypeAlias = Literal["fpga", "simulation"]

YOSYS = (0, 40)
"""Least version of Yosys that reads what Amaranth writes."""

PASSES = (
    "opt",
    "opt_clean -purge",
    "memory_collect",
    *(f"attrmap {mode} -remove src" for mode in ("", "-modattr")),
)
"""Yosys passes between processes and Verilog."""

BRANCHING = ("registers", "registers.reader", "load.padding")
"""Modules whose branches Verilator runs faster than the muxes of the same meaning."""

WAIVERS: Mapping[str, str] = MappingProxyType(
    {
        "DECLFILENAME": "all modules are in one file",
        "PROCASSINIT": "registers have a power-on value, and the same on reset",
        "SYMRSVDWORD": "the pin `interrupt` is a word of some C++ compilers",
        "UNOPTFLAT": "bits of one vector feed others; Yosys's `check` finds loops of single bits",
        "UNUSEDSIGNAL": "pins and fields that the standard has and this design needs not",
    }
)
"""Remarks of `verilator -Wall` that the FPGA arm's text switches off, with the reasons."""

RTL = Path(__file__).with_name("rtl")
LEAVES = tuple(
    RTL / f"{name}.sv"
    for name in (
        "accumulators",
        "loop_nest",
        "mac_array",
        "scratchpad",
        "tables",
        "vector_lanes",
    )
)
"""Hand-written modules of the simulation arm."""


def verilog(config: AccelConfig, arm: ArmName = "fpga", reset: Reset = Reset.LOW) -> str:
    """Return the accelerator as SystemVerilog text; the top module is `accel`."""
    with without_zeros():
        text = rtlil.convert(Top(config, Arm(arm), reset), name=TOP_NAME, emit_src=False)
    match Arm(arm):
        case Arm.SIMULATION:
            converted = _yosys(text, *_keep_branches(), *PASSES, "write_verilog -norename -sv")
            return "\n".join([converted, *(leaf.read_text(encoding="utf-8") for leaf in LEAVES)])
        case Arm.FPGA:
            explicit = explicit_widths(_yosys(text, "proc", *PASSES, "write_rtlil"))
            return _with_waivers(_yosys(explicit, "write_verilog -sv"))
        case _:
            assert_never(arm)


def _keep_branches() -> tuple[str, str]:
    """Return the commands that make muxes of the processes of all modules but `BRANCHING`."""
    kept = [f"{TOP_NAME}.accelerator.{name}" for name in BRANCHING]
    others = " ".join(["*", *(f"{name} %d" for name in kept)])
    return f"proc -nomux -norom {' '.join(kept)}", f"proc {others}"


def _yosys(rtlil_text: str, *commands: str) -> str:
    """Return what Yosys writes when it has read the design and obeyed the commands."""
    script = "\n".join([f"read_rtlil <<rtlil\n{rtlil_text}\nrtlil", *commands])
    yosys = find_yosys(lambda version: version >= YOSYS)
    return str(yosys.run(["-q", "-"], script, ignore_warnings=True))


def _with_waivers(text: str) -> str:
    off = [f"/* verilator lint_off {name} */ // {reason}" for name, reason in WAIVERS.items()]
    on = [f"/* verilator lint_on {name} */" for name in WAIVERS]
    return "\n".join([*off, text, *on, ""])


@contextmanager
def without_zeros() -> Iterator[None]:
    """Emit no initial value for memories that begin at 0.

    Amaranth 0.5 writes every row of every memory, most of the export's time and text; every row
    that this design reads was written before.
    """
    emitter = rtlil.ModuleEmitter
    original = emitter.emit_memory

    def emit_memory(self: rtlil.ModuleEmitter, cell_index: int, cell: Any) -> None:
        if any(cell.init):
            original(self, cell_index, cell)

    emitter.emit_memory = emit_memory
    try:
        yield
    finally:
        emitter.emit_memory = original


def generate(
    config: AccelConfig, folder: Path, arm: ArmName = "fpga", reset: Reset = Reset.LOW
) -> tuple[Path, ...]:
    """Write the accelerator into a folder, which is made; return the paths of what is written.

    `accelerator.v`; its `manifest.json`; `accelerator.f`, the file list that Verilator, Icarus and
    most others read; `accelerator.sdc`, the constraints; `accel_contract.h`, the contract for C and
    C++.

    Raises
    ------
    CodesignError
        The configuration breaks rules.
    """
    config.check()
    folder.mkdir(parents=True, exist_ok=True)
    source = "accelerator.v"
    described = json.dumps(describe(config, arm, [source], reset), indent=2)
    texts = {
        source: verilog(config, arm, reset),
        "manifest.json": described + "\n",
        "accelerator.f": source + "\n",
        "accelerator.sdc": constraints(config, reset),
        "accel_contract.h": contract_header(config),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return tuple(folder / name for name in texts)


def constraints(config: AccelConfig, reset: Reset = Reset.LOW) -> str:
    """Return constraints in Tcl: the clock at the configuration's speed, the reset without one."""
    return (
        f"create_clock -name aclk -period {1000 / config.clock_mhz:.3f} [get_ports aclk]\n"
        f"set_false_path -from [get_ports {reset.value}]\n"
    )


def describe(config: AccelConfig, arm: ArmName, files: list[str], reset: Reset) -> dict[str, Any]:
    """Return the manifest: configuration, digest, arm, top module, ports, files in order."""
    return {
        "top": TOP_NAME,
        "digest": config.digest,
        "arm": arm,
        "config": asdict(config),
        "ports": ports(config, reset),
        "files": files,
    }


def ports(config: AccelConfig, reset: Reset = Reset.LOW) -> list[dict[str, Any]]:
    """Return name, direction and width of every pin of the top module."""
    return [
        {
            "name": name,
            "direction": "input" if member.flow is In else "output",
            "width": Shape.cast(member.shape).width,
        }
        for name, member in top_members(config, reset).items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m hardware.generate`."""
    parser = argparse.ArgumentParser(prog="python -m hardware.generate", description=__doc__)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--preset", choices=sorted(PRESETS), default="base")
    chosen.add_argument("--config", type=Path, help="TOML file of a configuration")
    parser.add_argument("--arm", choices=[arm.value for arm in Arm], default="fpga")
    parser.add_argument("--reset", choices=[each.name.lower() for each in Reset], default="low")
    parser.add_argument("--out", type=Path, help="folder; default build/rtl/NAME")
    options = parser.parse_args(arguments)
    try:
        config = AccelConfig.from_file(options.config) if options.config else preset(options.preset)
        name = options.config.stem if options.config else options.preset
        folder = options.out or Path("build") / "rtl" / name
        written = generate(config, folder, options.arm, Reset[options.reset.upper()])
    except CodesignError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.writelines(f"{path}\n" for path in written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
