"""relay-linear: what it compiles grows as it says, and the figure is the worst growth."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.interpreter import Interpreter
from codesign.ir.relay.expr import Call, Let, Match
from codesign.ir.relay.visit import post_order
from experiments.rows import relay_passes
from experiments.rows.relay_passes import FAMILIES, relay_linear


@pytest.mark.parametrize("name", FAMILIES)
def test_a_program_of_a_family_doubles(name: str) -> None:
    kinds = (Call, Let, Match)
    short, long = (
        sum(isinstance(n, kinds) for n in post_order(*FAMILIES[name](size).functions.values()))
        for size in (64, 128)
    )
    assert long == 2 * short
    assert Interpreter(FAMILIES[name](64)).run(x=np.asarray(0, np.float32)) == 0


def test_the_figure_is_the_worst_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1.0, 2.0, 4.0, 1.0, 3.0, 3.0, 2.0, 2.0, 3.0, 1.0, 1.0, 2.0])
    monkeypatch.setattr(relay_passes, "_compile_time_s", lambda module: next(times))
    assert relay_linear((1, 2, 4), 1).value == 3.0


def test_the_row_measures_what_it_says() -> None:
    measured = relay_linear((8, 16), 1)
    assert 0 < measured.value < 100
    assert measured.line("relay-linear").endswith("times the time per doubling")
