"""Wrong arguments and damaged files end in a `CodesignError`, never in a crash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import codesign
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.diagnostics import CodesignError
from codesign.ir.executable.executable import Executable
from codesign.ir.executable.values import DataValue
from host_runtime.session import Session

GRAPH = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(3,), float32]) { nn.relu(add(%x, %y)) }
"""
CONTROL = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %n: (int32, List[bool])) {
  (@length(%n.1) + %n.0, if (%n.0 < 3) { %x } else { negative(%x) })
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
Y = np.ones(3, np.float32)
N = (np.asarray(2, np.int32), DataValue("Cons", (np.asarray(True), DataValue("Nil"))))

RIGHT = {"graph": {"x": X, "y": Y}, "control": {"x": X, "n": N}}


@pytest.fixture(scope="module")
def executables() -> dict[str, Executable]:
    return {
        "graph": codesign.compile(parse_module(GRAPH)),
        "control": codesign.compile(parse_module(CONTROL, imports=prelude())),
    }


WRONG = {
    "graph": [
        {},
        {"x": X},
        {"x": X, "y": Y, "z": Y},
        {"x": X, "z": Y},
        {"x": X.astype(np.float64), "y": Y},
        {"x": X.astype(np.int32), "y": Y},
        {"x": X.T, "y": Y},
        {"x": X, "y": Y[:2]},
        {"x": X, "y": Y[None]},
        {"x": X, "y": np.float32(1)},
        {"x": X[:0], "y": Y},
        {"x": X, "y": (Y,)},
        {"x": X, "y": "text"},
        {"x": X, "y": None},
        {"x": X, "y": DataValue("Nil")},
        {"x": X, "y": np.array([None] * 3)},
        {"x": X, "y": np.array(["a"] * 3)},
    ],
    "control": [
        {},
        {"x": X},
        {"x": X, "n": N, "m": N},
        {"x": X, "n": N[:1]},
        {"x": X, "n": (*N, N)},
        {"x": X, "n": N[0]},
        {"x": X, "n": (N[0], N[0])},
        {"x": X, "n": (np.asarray(2, np.int64), N[1])},
        {"x": X, "n": (np.ones(1, np.int32), N[1])},
        {"x": X, "n": (N[0], DataValue("Rose"))},
        {"x": X, "n": (N[0], DataValue("Unheard"))},
        {"x": X, "n": (N[0], DataValue("Cons"))},
        {"x": X, "n": (N[0], DataValue("Cons", (N[0], N[1])))},
        {"x": X, "n": (N[0], DataValue("Cons", (np.asarray(True), N[0])))},
        {"x": X, "n": (N[0], DataValue("Nil", (N[0],)))},
        {"x": X[0], "n": N},
        {"x": X.astype(np.float16), "n": N},
        {"x": None, "n": N},
        {"x": DataValue("Nil"), "n": N},
        {"x": X, "n": "text"},
    ],
}


@pytest.mark.parametrize(
    ("kind", "index"), [(kind, i) for kind, wrong in WRONG.items() for i in range(len(wrong))]
)
def test_wrong_arguments_are_refused(
    executables: dict[str, Executable], kind: str, index: int
) -> None:
    session = Session(executables[kind])
    with pytest.raises(CodesignError):
        session.run(WRONG[kind][index])  # type: ignore[arg-type]
    session.run(RIGHT[kind])  # type: ignore[arg-type]


def _answer(executable: Executable, kind: str) -> list[bytes]:
    outputs = Session(executable).run(RIGHT[kind])  # type: ignore[arg-type]
    return [np.asarray(each).tobytes() for each in outputs.values()]


@pytest.mark.parametrize("kind", ["graph", "control"])
def test_a_damaged_file_is_refused_or_answers_the_same(
    executables: dict[str, Executable], kind: str, tmp_path: Path
) -> None:
    whole, damaged = tmp_path / "whole.codesign", tmp_path / "damaged.codesign"
    codesign.save(executables[kind], whole)
    content = whole.read_bytes()
    wanted = _answer(codesign.load(whole), kind)
    refused = 0
    places = [*range(0, len(content), max(1, len(content) // 150)), *range(len(content) - 60,
              len(content))]  # fmt: skip
    for place in places:
        for changed in (content[place] ^ 0x55, content[place] ^ 0x01):
            damaged.write_bytes(content[:place] + bytes([changed]) + content[place + 1 :])
            try:
                found = codesign.load(damaged)
            except CodesignError:
                refused += 1
                continue
            assert _answer(found, kind) == wanted
    assert refused > len(places)


@pytest.mark.parametrize("kind", ["graph", "control"])
def test_a_file_that_was_cut_off_is_refused(
    executables: dict[str, Executable], kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "cut.codesign"
    codesign.save(executables[kind], path)
    content = path.read_bytes()
    for end in range(0, len(content), max(1, len(content) // 60)):
        path.write_bytes(content[:end])
        with pytest.raises(CodesignError):
            codesign.load(path)


def test_a_name_that_is_two_lengths_is_refused(tmp_path: Path) -> None:
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %y: Tensor[(n, 2), float32]) { (%x, nn.relu(%y)) }
"""
    path = tmp_path / "named.codesign"
    codesign.save(codesign.compile(parse_module(text)), path)
    session = Session(codesign.load(path))
    x, y = np.ones((3, 4), np.float32), np.ones((3, 2), np.float32)
    assert [np.shape(each) for each in session.run({"x": x, "y": y}).values()] == [(3, 4), (3, 2)]
    with pytest.raises(CodesignError, match=r"(?s)n is two lengths.*found 3 in 'x' and 2 in 'y'"):
        session.run({"x": x, "y": y[:2]})
