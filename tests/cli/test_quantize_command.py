"""`codesign quantize` and the schemes of `codesign compile`, on the digits network."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from codesign.cli.main import main
from codesign.ir.executable.archive import load
from codesign.ir.executable.executable import CpuStep


def test_every_layer_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["quantize", "digits", "--scheme", "8/16", "--ranges", "kl", "--power-of-two",
                 "--samples", "8", "--json"]  # fmt: skip
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scheme"] == "8/16"
    assert report["ranges"] == "kl"
    layers = {layer["name"]: layer for layer in report["layers"]}
    assert len(layers) == 7
    for layer in layers.values():
        assert layer["low"] <= 0 <= layer["high"]
        assert layer["least"] <= layer["greatest"]
        assert layer["scale"].hex().startswith("0x1.0000000000000p")
        assert 0 <= layer["clipped"] < layer["values"]
        assert layer["sqnr_db"] > 5
    assert report["same_top1_percent"] >= 75
    assert report["right_top1_percent"] >= 75


def test_the_report_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", "digits", "--scheme", "16/32", "--samples", "2"]) == 0
    text = capsys.readouterr().out
    assert "digits CNN, trained here as 16/32" in text
    assert "gives its sums in fp32" in text
    assert "same_top1_percent 100" in text


@pytest.mark.parametrize("scheme", ["8/16", "16/32"])
def test_the_accelerator_cannot_hold_a_scheme(
    scheme: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "digits.codesign"
    assert main(["compile", "digits", "--target", "accel", "--preset", "tiny", "--scheme", scheme,
                 "--out", str(out)]) == 1  # fmt: skip
    assert f"the accelerator cannot hold the scheme {scheme}" in capsys.readouterr().err
    assert not out.exists()


def test_the_cpu_takes_a_scheme(tmp_path: Path) -> None:
    out = tmp_path / "digits.codesign"
    assert main(["compile", "digits", "--target", "int8", "--scheme", "8/16", "--per-tensor",
                 "--out", str(out)]) == 0  # fmt: skip
    (step,) = load(out).steps
    assert isinstance(step, CpuStep)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--percentile", "99"], "--percentile means nothing with --ranges mse"),
        (["--ranges", "percentile", "--percentile", "3"], r"percentile must be within \(50, 100]"),
        (["--ranges", "kl", "--global-range", "8"], "--global-range means nothing with --ranges"),
        (["--ranges", "global", "--global-range", "-1"], "global_range must be positive"),
    ],
)
def test_options_that_make_no_sense(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quantize", "digits", *arguments]) == 1
    assert re.search(said, capsys.readouterr().err)
