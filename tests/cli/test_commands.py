"""The commands do what they say on the digits network, and print JSON that programs can read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from codesign.cli.main import main
from codesign.cli.tools import TOOLS
from experiments.networks.digits.train import MODEL


def _json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def _reference(image: np.ndarray) -> np.ndarray:
    evaluator = ReferenceEvaluator(onnx.load(MODEL))
    return evaluator.run(None, {"image": image})[0]


@pytest.fixture
def image(tmp_path: Path) -> tuple[Path, np.ndarray]:
    values = np.random.default_rng(11).random((1, 1, 8, 8), np.float32)
    path = tmp_path / "image.npy"
    np.save(path, values)
    return path, values


def test_run_on_the_cpu_answers_as_the_onnx_reference(capsys, image) -> None:
    path, values = image
    result = _json(capsys, "run", str(MODEL), "--inputs", str(path))
    np.testing.assert_allclose(result["outputs"]["logits"], _reference(values), rtol=1e-4)
    assert result["cycles"] is None


def test_run_writes_the_outputs_that_it_prints(capsys, tmp_path: Path, image) -> None:
    out = tmp_path / "out.npz"
    result = _json(capsys, "run", "digits", "--inputs", str(image[0]), "--out", str(out))
    np.testing.assert_array_equal(
        np.load(out)["logits"], np.array(result["outputs"]["logits"], np.float32)
    )


def test_run_on_the_accelerator_gives_the_bits_of_int8_on_the_cpu(capsys, image) -> None:
    int8 = _json(capsys, "run", "digits", "--inputs", str(image[0]), "--target", "int8")
    options = ["--target", "accel", "--preset", "tiny", "--sim", "cycle"]
    accel = _json(capsys, "run", "digits", "--inputs", str(image[0]), *options)
    assert accel["outputs"] == int8["outputs"]
    (step,) = [step for step in accel["steps"] if step["kind"] == "accel"]
    assert step["cycles"] == accel["cycles"] == step["counters"]["cycles"] > 0


def test_run_takes_npz_and_seeds(capsys, tmp_path: Path, image) -> None:
    path = tmp_path / "image.npz"
    np.savez(path, image=image[1])
    named = _json(capsys, "run", "digits", "--inputs", str(path))
    plain = _json(capsys, "run", "digits", "--inputs", str(image[0]))
    assert named["outputs"] == plain["outputs"]
    seeds = [_json(capsys, "run", str(MODEL), "--seed", seed)["outputs"] for seed in "112"]
    assert seeds[0] == seeds[1] != seeds[2]


def test_compare_without_the_circuit_agrees(capsys) -> None:
    options = ["--preset", "tiny", "--samples", "4", "--rtl-samples", "0"]
    result = _json(capsys, "compare", "digits", *options)
    assert result["agrees"] is True
    assert result["differing_elements"] == 0
    assert [stage["stage"] for stage in result["stages"]] == [
        "cpu fp32",
        "cpu int8",
        "functional",
        "cycle",
    ]
    # conv 3x3x16 + depthwise 3x3x16 + pointwise 16x32, each at 64 places; dense 512x64, 64x10
    macs = 64 * (9 * 16 + 9 * 16 + 16 * 32) + 512 * 64 + 64 * 10
    assert sum(layer["macs"] for layer in result["layers"]) == macs


@pytest.mark.slow
def test_compare_writes_its_report_whole(capsys, tmp_path: Path) -> None:
    out = tmp_path / "report"
    options = ["--preset", "tiny", "--samples", "2", "--rtl-samples", "0", "--out", str(out)]
    result = _json(capsys, "compare", "digits", *options)
    written = {path.name for path in out.rglob("*")}
    assert {"report.json", "layers.csv", "roofline.png", "trace0.json", "accelerator.v"} <= written
    assert json.loads((out / "report.json").read_text()) == result
    assert (out / "roofline.png").read_bytes().startswith(b"\x89PNG")
    events = json.loads((out / "trace0.json").read_text())["traceEvents"]
    ends = [event["ts"] + event["dur"] for event in events if event["ph"] == "X"]
    assert 0 < max(ends) <= result["stages"][3]["cycles"]
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.slow
@pytest.mark.needs_verilator
def test_compare_with_the_circuit_agrees_bit_for_bit_and_cycle_for_cycle(capsys) -> None:
    options = ["--preset", "tiny", "--samples", "3", "--rtl-samples", "2"]
    result = _json(capsys, "compare", "digits", *options)
    assert result["agrees"] is True
    cycles = {stage["stage"]: stage["cycles"] for stage in result["stages"]}
    assert cycles["rtl"] == cycles["cycle"] > 0


def test_compile_places_every_operator_and_writes_one_file(capsys, tmp_path: Path) -> None:
    out = tmp_path / "digits.codesign"
    result = _json(capsys, "compile", "digits", "--preset", "edge", "--out", str(out))
    assert [path.name for path in tmp_path.iterdir()] == ["digits.codesign"]
    assert result["size_bytes"] == out.stat().st_size
    units = {row["operator"]: row["unit"] for row in result["placements"]}
    assert units["nn.max_pool2d"] == "vector"
    assert units["qnn.dense"] == "gemm"
    assert all(row["reason"] for row in result["placements"] if row["unit"] == "host")


@pytest.mark.slow
def test_rtl_writes_verilog_with_the_configurations_digest(capsys, tmp_path: Path) -> None:
    result = _json(capsys, "rtl", "--preset", "tiny", "--out", str(tmp_path / "rtl"))
    names = {Path(path).name for path in result["files"]}
    assert {"accelerator.v", "manifest.json"} <= names
    manifest = json.loads((tmp_path / "rtl" / "manifest.json").read_text())
    assert manifest["digest"] == result["digest"]
    assert "module " in (tmp_path / "rtl" / "accelerator.v").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["rtl"]


def test_trace_names_the_layers(capsys, tmp_path: Path) -> None:
    result = _json(capsys, "trace", "digits", "--preset", "tiny", "--out", str(tmp_path))
    (path,) = result["files"]
    events = json.loads(Path(path).read_text())["traceEvents"]
    named = {event["args"].get("layer") for event in events if event["ph"] == "X"}
    assert "logits" in named


def test_doctor_lists_every_tool_and_fails_only_for_required_ones(capsys) -> None:
    code = main(["doctor", "--json"])
    tools = json.loads(capsys.readouterr().out)["tools"]
    assert [tool["name"] for tool in tools] == [tool.name for tool in TOOLS]
    assert code == any(tool["required"] and tool["version"] is None for tool in tools)
    assert all(tool["needed_by"] and tool["how_to_get"] for tool in tools)


@pytest.mark.parametrize("name", ["run", "compare", "compile", "rtl", "trace", "doctor"])
def test_help_explains_a_command(capsys, name: str) -> None:
    assert main([name, "--help"]) == 0
    assert f"codesign {name}" in capsys.readouterr().out
