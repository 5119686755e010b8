"""Rows that set one thing beside another: batches, and another simulator."""

from __future__ import annotations

import re

import pytest

from codesign.diagnostics import CodesignError
from experiments.rows import study_batching as batching
from experiments.rows.scalesim import LAYERS, _topology
from experiments.rows.study_batching import study_batching


def test_sixteen_trees_at_once_gain_what_the_roofline_predicts() -> None:
    measured = study_batching(("tree-cell",))
    found = re.fullmatch(r"times for tree-cell, predicted (\S+)", measured.unit)
    assert found is not None
    # Weights of a state of 150 numbers fill tiles of 16 by 88 % and tiles of 4 by 97 %; sixteen
    # samples read them once.
    assert 12 < float(found[1]) < 16
    assert measured.value == pytest.approx(float(found[1]), rel=0.1)


def test_a_gain_that_is_not_predicted_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_gain", lambda _: (12.0, 10.0))
    with pytest.raises(CodesignError, match=r"tree-cell: 12\.00 against 10\.00"):
        study_batching(("tree-cell",))


def test_layers_are_those_of_resnet18() -> None:
    sides = [(each.side + 2 * each.padding - each.kernel) // each.stride + 1 for each in LAYERS]
    assert sides == [112, 56, 28, 28, 28, 14, 14, 14, 7, 7, 7]
    macs = sum(
        side * side * each.inputs * each.outputs * each.kernel**2
        for side, each in zip(sides, LAYERS, strict=True)
    )
    assert macs == 118_013_952 + 4 * 115_605_504 + 3 * 57_802_752 + 3 * 6_422_528


def test_scalesim_gets_planes_with_their_padding() -> None:
    first, second = _topology(LAYERS[:2]).splitlines()[1:]
    assert first == "C1, 230, 230, 7, 7, 3, 64, 2,"
    assert second == "C2, 58, 58, 3, 3, 64, 64, 1,"
