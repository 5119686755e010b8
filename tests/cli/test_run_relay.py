"""`codesign run` on Relay text: inputs, results of every kind, targets, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from codesign.cli.main import main

SQUARES = """#[version = "0.0.5"]
def @main(%x: Tensor[(?,), float32], %n: int32) {
  let %l = Cons(%n, Cons(%n * %n, Nil));
  (%x * %x, @map(fn (%k) { %k + 1 }, %l), (%n, True))
}
"""

LAYER = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 16, 4, 4), int8], %y: Tensor[(1, 16, 4, 4), int8]) {
  nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2])
}
"""


@pytest.fixture
def squares(tmp_path: Path) -> tuple[str, str]:
    model, inputs = tmp_path / "squares.relay", tmp_path / "inputs.npz"
    model.write_text(SQUARES, encoding="utf-8")
    np.savez(inputs, x=np.array([1.5, -2.0], np.float32), n=np.asarray(3, np.int32))
    return str(model), str(inputs)


def test_values_of_every_kind_are_given_as_json(capsys, squares) -> None:
    model, inputs = squares
    assert main(["run", model, "--inputs", inputs, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"]["output0"] == [2.25, 4.0]
    assert found["outputs"]["output1"] == ["Cons", [4, ["Cons", [10, ["Nil", []]]]]]
    assert found["outputs"]["output2"] == [3, True]


def test_values_print_as_they_are_written(capsys, squares) -> None:
    model, inputs = squares
    assert main(["run", model, "--inputs", inputs]) == 0
    printed = capsys.readouterr().out
    assert "output0: float32[2] [2.25, 4.0]" in printed
    assert "output1: Cons(4, Cons(10, Nil))" in printed
    assert "output2: (3, True)" in printed


def test_one_array_and_a_file_of_results(capsys, tmp_path: Path) -> None:
    model, x, out = (tmp_path / each for each in ("twice.relay", "x.npy", "out.npz"))
    model.write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2,), float32]) { %x + %x }')
    np.save(x, np.array([1, 2], np.float32))
    assert main(["run", str(model), "--inputs", str(x), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["output"] == [2.0, 4.0]
    np.testing.assert_array_equal(np.load(out)["output"], [2, 4])


def test_seeds_make_inputs(capsys, tmp_path: Path) -> None:
    model = tmp_path / "plus.relay"
    model.write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2,), float32]) { %x }')
    answers = []
    for seed in ("1", "1", "2"):
        assert main(["run", str(model), "--seed", seed, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out)["outputs"])
    assert answers[0] == answers[1] != answers[2]


def test_the_accelerator_runs_the_operators_that_it_has(capsys, tmp_path: Path) -> None:
    model = tmp_path / "layer.relay"
    model.write_text(LAYER)
    given = []
    for options in ([], ["--target", "accel", "--preset", "tiny", "--sim", "cycle"]):
        assert main(["run", str(model), "--json", *options]) == 0
        given.append(json.loads(capsys.readouterr().out))
    assert given[0]["outputs"] == given[1]["outputs"]
    assert given[0]["cycles"] is None
    assert given[1]["cycles"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "int8"], "compiled as it is written, not quantized"),
        ([], "the shape of input x is not known"),
        (["--inputs", "nowhere.npz"], "there is no file"),
    ],
)
def test_mistakes_are_told(capsys, squares, options: list[str], message: str) -> None:
    assert main(["run", squares[0], *options]) == 1
    assert message in capsys.readouterr().err


def test_results_that_are_no_tensors_are_not_written(capsys, squares, tmp_path: Path) -> None:
    model, inputs = squares
    assert main(["run", model, "--inputs", inputs, "--out", str(tmp_path / "out.npz")]) == 1
    assert "is no tensor and cannot be written" in capsys.readouterr().err


def test_inputs_that_lack_one_are_told(capsys, squares, tmp_path: Path) -> None:
    partial = tmp_path / "partial.npz"
    np.savez(partial, x=np.zeros(2, np.float32))
    assert main(["run", squares[0], "--inputs", str(partial)]) == 1
    assert "the inputs lack n" in capsys.readouterr().err
