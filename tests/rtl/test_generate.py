"""What `hardware.generate` writes: Verilog, manifest, contract header, and its command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from codesign.accel.config import AccelConfig
from codesign.accel.export import contract_header
from codesign.accel.presets import TINY, preset
from hardware.generate import generate, main
from hardware.rtl.arm import Reset

LEAST = AccelConfig(
    block_in=1,
    block_out=1,
    inp_bits=4,
    wgt_bits=2,
    inp_depth=2,
    wgt_depth=2,
    vec_depth=2,
    acc_depth=2,
    out_depth=2,
    param_depth=2,
    lut_depth=2,
    vector_lanes=1,
    bus_bits=64,
    burst_beats=1,
    outstanding=1,
    queue_depth=2,
    has_lut=False,
    has_multiplier=False,
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    paths = generate(LEAST, tmp_path_factory.mktemp("rtl"))
    return {path.name: path for path in paths}


def test_least_configuration_has_no_port_or_register_of_width_zero(written):
    assert "[-1:0]" not in written["accelerator.v"].read_text()


def test_manifest_tells_the_pins_of_the_verilog(written):
    manifest = json.loads(written["manifest.json"].read_text())
    text = written["accelerator.v"].read_text()
    body = text[text.index(f"module {manifest['top']}(") :]
    body = body[: body.index("endmodule")]
    pins = {
        name: (direction, int(high or 0) + 1)
        for direction, high, name in re.findall(
            r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", body, re.MULTILINE
        )
    }
    assert pins == {pin["name"]: (pin["direction"], pin["width"]) for pin in manifest["ports"]}
    assert manifest["digest"] == LEAST.digest
    assert manifest["files"] == ["accelerator.v"]


def test_memories_without_content_have_no_initial_values(written):
    assert not re.search(r"^\s+\S+\[\d+\] = ", written["accelerator.v"].read_text(), re.MULTILINE)


def test_contract_header_stands_beside_the_verilog(written):
    assert written["accel_contract.h"].read_text() == contract_header(LEAST)


def test_file_list_and_constraints_stand_beside_the_verilog(written):
    assert written["accelerator.f"].read_text() == "accelerator.v\n"
    clock = f"create_clock -name aclk -period {1000 / LEAST.clock_mhz:.3f} [get_ports aclk]\n"
    assert written["accelerator.sdc"].read_text().startswith(clock)


def test_reset_may_be_active_high(written, tmp_path):
    paths = generate(LEAST, tmp_path, reset=Reset.HIGH)
    text = paths[0].read_text()
    low = written["accelerator.v"].read_text()
    assert "aresetn" not in text
    assert re.search(r"<= areset;|= areset;", text)
    assert re.search(r"= ~ ?aresetn;|= !aresetn;", low)
    names = [pin["name"] for pin in json.loads((tmp_path / "manifest.json").read_text())["ports"]]
    assert names[:2] == ["aclk", "areset"]


def test_command_line_reads_a_configuration_file(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(TINY.to_toml())
    out = tmp_path / "rtl"
    assert main(["--config", str(tmp_path / "mine.toml"), "--out", str(out)]) == 0
    assert json.loads((out / "manifest.json").read_text())["digest"] == preset("tiny").digest
    assert str(out / "accelerator.v") in capsys.readouterr().out


def test_command_line_tells_a_broken_rule(tmp_path, capsys):
    (tmp_path / "bad.toml").write_text("block_in = 3\n")
    assert main(["--config", str(tmp_path / "bad.toml"), "--out", str(tmp_path)]) == 1
    assert "block_in" in capsys.readouterr().err
