"""Synthesis, boards and bitstreams: what is counted, what is refused, what the files say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.accel.presets import BASE, EDGE, TINY
from codesign.accel.resources import PARTS, Resources, estimate
from codesign.diagnostics import CodesignError
from hardware.boards import ulx3s
from hardware.boards.board import BoardPlan, memory_left
from hardware.boards.simulate import simulated_plan
from hardware.synthesize import Target, count, main, require_fit, synthesize

PART = PARTS["LFE5U-85F"]


def test_cells_of_each_family_are_counted() -> None:
    ecp5 = {"LUT4": 5, "CCU2C": 3, "TRELLIS_DPR16X4": 2, "TRELLIS_FF": 4, "MULT18X18D": 1}
    assert count(ecp5 | {"DP16KD": 6, "PFUMX": 9}) == Resources(dsp=1, block_ram=6, lut=23, ff=4)
    ice40 = {"SB_LUT4": 7, "SB_CARRY": 5, "SB_DFFESR": 2, "SB_DFF": 1, "SB_RAM40_4K": 3}
    assert count(ice40) == Resources(dsp=0, block_ram=3, lut=7, ff=3)
    xilinx = {"LUT2": 1, "LUT6": 2, "FDRE": 3, "FDSE": 1, "DSP48E2": 2, "RAMB36E2": 2, "CARRY4": 8}
    assert count(xilinx | {"RAMB18E2": 1}) == Resources(dsp=2, block_ram=5, lut=3, ff=4)


def test_what_does_not_fit_is_refused_by_name_and_amount() -> None:
    needed = Resources(dsp=157, block_ram=208, lut=90_000, ff=1)
    with pytest.raises(CodesignError) as caught:
        require_fit(needed, PART, "the accelerator")
    text = str(caught.value)
    assert "the accelerator does not fit into LFE5U-85F: too few multipliers" in text
    assert "it needs 157, the part has 156" in text
    assert "too few LUTs" in text
    assert "block RAMs" not in text
    require_fit(replace(needed, dsp=156, lut=83_640), PART, "the accelerator")


def test_memory_is_the_greatest_power_of_two_that_is_left() -> None:
    size = memory_left(TINY, PART.name)
    # Three quarters of 208 blocks; one holds 2 KiB of a 32-bit memory without its parity bits.
    left = 156 - estimate(TINY).block_ram
    assert size == 1 << 17
    assert size // 2048 <= left < 2 * size // 2048


def test_part_without_block_ram_left_has_no_board() -> None:
    with pytest.raises(CodesignError, match="memory is whole pages"):
        simulated_plan(BASE, "LFE5U-25F")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"memory_bytes": 5000}, "whole pages of 4096 bytes"),
        ({"memory_bytes": 0}, "whole pages of 4096 bytes"),
        ({"baud": 20_000_000}, "too fast for the clock"),
        ({"baud": 7_500_000}, "cannot be had from the clock"),
    ],
)
def test_plans_that_cannot_be_are_refused(change: dict[str, int], sentence: str) -> None:
    plan = BoardPlan(config=TINY, memory_bytes=4096, clock_hz=50_000_000, baud=1_000_000)
    assert plan.check().divisor == 50
    with pytest.raises(CodesignError, match=sentence):
        replace(plan, **change).check()


def test_clock_that_the_pll_cannot_make_is_refused() -> None:
    with pytest.raises(CodesignError, match="the PLL cannot make the clock"):
        ulx3s.plan(EDGE, 60_000_000)


def test_every_pin_of_the_top_has_a_site(tmp_path: Path) -> None:
    text = ulx3s.write_top(ulx3s.CLOCK_HZ, tmp_path).read_text()
    module = text[text.index("module ulx3s(") :]
    ports = re.findall(
        r"^  (?:input|output) (?:\[(\d+):0\] )?(\w+);", module[: module.index("endmodule")], re.M
    )
    wanted = {
        f"{name}[{index}]" if width else name
        for width, name in ports
        for index in range(int(width or 0) + 1)
    }
    located = re.findall(r'LOCATE COMP "([^"]+)" SITE "(\w+)"', ulx3s.PINS)
    assert {name for name, _ in located} == wanted
    assert len({site for _, site in located}) == len(located)
    assert ".CLKFB_DIV(32'd2)" in text
    assert ".CLKOP_DIV(32'd12)" in text


def test_command_refuses_an_illegal_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.toml"
    path.write_text("block_in = 3\n")
    assert main(["--config", str(path)]) == 1
    assert "block_in" in capsys.readouterr().err


@pytest.mark.slow
def test_synthesis_counts_a_known_circuit_and_is_kept(tmp_path: Path) -> None:
    """Eight flip-flops, one 9 x 9 multiplier, one memory of 512 x 36 bits."""
    source = tmp_path / "known.v"
    source.write_text(
        """
        module known(input clk, input signed [8:0] a, b, input [8:0] at, input [35:0] d, input we,
                     output reg [35:0] q, output signed [17:0] p, output reg [7:0] r);
          reg [35:0] m [0:511];
          assign p = a * b;
          always @(posedge clk) begin
            if (we) m[at] <= d; else q <= m[at];
            r <= a[7:0];
          end
        endmodule
        """
    )
    said: list[str] = []
    results = [synthesize([source], "known", Target.ECP5, tmp_path, said.append) for _ in range(2)]
    assert len(said) == 1
    assert results[0] == results[1]
    needed = results[0].needed
    assert (needed.dsp, needed.block_ram, needed.ff) == (1, 1, 8)
    assert results[0].netlist.is_file()


@pytest.mark.slow
def test_failure_of_yosys_shows_what_it_said(tmp_path: Path) -> None:
    source = tmp_path / "broken.v"
    source.write_text("module broken(\n")
    with pytest.raises(CodesignError, match=r"(?s)yosys failed with code 1.*syntax error"):
        synthesize([source], "broken", Target.ECP5, tmp_path, lambda _: None)
