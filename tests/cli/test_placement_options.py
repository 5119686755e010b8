"""The options of placement: what they mean, and where they are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from codesign.cli import options
from codesign.cli.main import main
from codesign.compiler.partition.costs import ByCost
from codesign.diagnostics import CodesignError


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the host's seconds of every kernel, which a test may change."""
    seconds = [0.0]
    placement = ByCost(host_clock=lambda _: seconds[0], copy_s=1e-9, bytes_per_s=1e12)
    monkeypatch.setattr(options, "placed_by_cost", lambda _config, _say: placement)
    return seconds


@pytest.mark.parametrize(("host_s", "expected"), [(0.0, {"host"}), (1.0, {"gemm", "vector"})])
def test_compile_places_by_cost_and_says_both_figures(
    capsys, tmp_path: Path, costs: list[float], host_s: float, expected: set[str]
) -> None:
    costs[0] = host_s
    out = str(tmp_path / "digits.codesign")
    rows = _json(capsys, "compile", "digits", "--preset", "tiny", "--place-by-cost", "--out", out)
    convolutions = [row for row in rows["placements"] if row["operator"] == "qnn.conv2d"]
    assert {row["unit"] for row in convolutions} == expected
    assert all("on the host" in row["reason"] for row in convolutions)
    assert all("on the accelerator" in row["reason"] for row in convolutions)
    assert all("of copies" in row["reason"] for row in convolutions)


def test_the_answer_does_not_depend_on_the_place(capsys, tmp_path: Path, costs) -> None:
    image = tmp_path / "image.npy"
    np.save(image, np.random.default_rng(3).random((1, 1, 8, 8), np.float32))
    run = ["run", "digits", "--target", "accel", "--preset", "tiny", "--inputs", str(image)]
    there, here = _json(capsys, *run), _json(capsys, *run, "--place-by-cost")
    assert there["outputs"] == here["outputs"]
    assert there["cycles"] > 0
    assert here["cycles"] is None


def test_the_clock_is_the_one_that_is_asked_for(capsys) -> None:
    run = ["run", "digits", "--target", "accel", "--preset", "tiny"]
    plain, fast = _json(capsys, *run), _json(capsys, *run, "--clock-mhz", "250")
    assert [each["clock_mhz"] for each in (plain, fast)] == [50, 250]
    assert plain["cycles"] == fast["cycles"]


@pytest.mark.parametrize("by_cost", [False, True])
def test_compare_agrees_and_counts_the_overlap(capsys, costs, by_cost: bool) -> None:
    compare = ["compare", "digits", "--preset", "tiny", "--samples", "4", "--rtl-samples", "0"]
    report = _json(capsys, *compare, *(["--place-by-cost"] if by_cost else []))
    assert report["agrees"]
    pipeline = report["pipeline"]
    assert pipeline["samples"] == 4
    assert 0 < pipeline["overlapped_ms"] <= pipeline["in_turn_ms"]
    accelerator_ms = report["stages"][3]["accelerator_ms"]
    assert accelerator_ms is None if by_cost else 4 * accelerator_ms <= pipeline["overlapped_ms"]


def test_relay_text_is_placed_too(capsys, tmp_path: Path, costs: list[float]) -> None:
    text = tmp_path / "table.relay"
    text.write_text(
        '#[version = "0.0.5"]\n'
        "def @main(%x: Tensor[(1, 16, 4, 4), int8]) {\n"
        "  nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2])\n}\n"
    )
    run = ["run", str(text), "--target", "accel", "--preset", "tiny"]
    assert _json(capsys, *run)["cycles"] > 0
    assert _json(capsys, *run, "--place-by-cost")["cycles"] is None


def test_placement_is_for_the_accelerator(capsys) -> None:
    assert main(["run", "digits", "--target", "int8", "--place-by-cost"]) != 0
    assert "--place-by-cost is for --target accel" in capsys.readouterr().err


def test_a_clock_must_be_legal() -> None:
    with pytest.raises(CodesignError):
        options.configuration("tiny", None, 0).check()
