"""The options of a GPU reach the compiler, and are refused where they mean nothing."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from codesign.cli.main import main


def _units(out: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, set[str]]:
    arguments = ["compile", "digits", "--target", "gpu", "--json", "--out", str(out), *options]
    assert main(arguments) == 0
    units: dict[str, set[str]] = {}
    for row in json.loads(capsys.readouterr().out)["placements"]:
        units.setdefault(row["operator"], set()).add(row["unit"])
    return units


def _content(file: Path) -> bytes:
    with zipfile.ZipFile(file) as archive:
        return b"".join(map(archive.read, archive.namelist()))


def test_an_operator_is_left_to_the_host(tmp_path: Path, capsys) -> None:
    everywhere = _units(tmp_path / "all.codesign", capsys)
    shared = _units(tmp_path / "shared.codesign", capsys, "--on-host", "nn.dense")
    assert everywhere["nn.dense"] == everywhere["nn.conv2d"] == shared["nn.conv2d"]
    assert shared["nn.dense"] != everywhere["nn.dense"]


def test_architecture_and_precision_reach_the_code(tmp_path: Path, capsys) -> None:
    plain, chosen = tmp_path / "plain.codesign", tmp_path / "chosen.codesign"
    _units(plain, capsys)
    _units(chosen, capsys, "--gpu", "sm_90", "--precision", "bf16")
    assert b".target sm_80" in _content(plain)
    assert b".target sm_90" in _content(chosen)
    assert b"bf16" in _content(chosen)
    assert b"bf16" not in _content(plain)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--precision", "tf32"), "--precision is for --target gpu"),
        (("--target", "cpu", "--on-host", "nn.dense"), "--on-host is for --target gpu"),
        (("--target", "gpu", "--precision", "fp8"), "no precision 'fp8'"),
        (("--target", "gpu", "--gpu", "sm_10"), "no model of GPU architecture 'sm_10'"),
        (("--target", "gpu", "--on-host", "nn.lrn"), "calls no nn.lrn"),
    ],
)
def test_what_means_nothing_is_refused(
    tmp_path: Path, capsys, options: tuple[str, ...], said: str
) -> None:
    out = tmp_path / "network.codesign"
    assert main(["compile", "digits", "--out", str(out), *options]) == 1
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_relay_text_takes_the_options_too(tmp_path: Path, capsys) -> None:
    text = tmp_path / "m.relay"
    text.write_text(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { exp(%x) }\n', encoding="utf-8"
    )
    assert main(["run", str(text), "--target", "gpu", "--precision", "fp8"]) == 1
    assert "no precision 'fp8'" in capsys.readouterr().err
