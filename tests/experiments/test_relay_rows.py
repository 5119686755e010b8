"""How the rows of recursive networks count, with clocks that are made up."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.diagnostics import CodesignError
from experiments.models.trees import Dependency, sentences
from experiments.rows import relay_calls, relay_models
from experiments.rows.turns import in_turns, timed


def test_the_median_of_ratios_counts() -> None:
    theirs = iter([0.1, 0.1, 6.0, 3.0, 9.0])
    asked: list[int] = []

    def ours(count: int) -> float:
        asked.append(count)
        return 1.0

    found = in_turns(ours, lambda _: next(theirs), rounds=3)
    assert found.speedup == 6.0
    assert found.ours_s == 1.0
    assert asked == [3, 1, 1, 1, 1], "what takes a second runs once in a turn"


def test_a_clock_calls_as_often_as_it_is_told() -> None:
    calls: list[None] = []
    assert timed(lambda: calls.append(None))(7) >= 0.0
    assert len(calls) == 7


def test_one_call_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_calls, "BATCHES", 2)
    found = relay_calls.relay_call()
    assert found.value > 0
    assert found.line("relay-call").endswith(" us")


class _Answers:
    def __init__(self, answers: np.ndarray) -> None:
        self._answers = answers

    def answers(self, name: str) -> np.ndarray:
        assert name == "network"
        return self._answers


def test_other_answers_than_pytorchs_end_the_row() -> None:
    found = np.asarray([[1.0, 2.0]], np.float32)
    relay_models.require_equal("network", found, _Answers(found[0]))
    with pytest.raises(CodesignError, match="other answers than PyTorch"):
        relay_models.require_equal("network", found, _Answers(found[0] + 1e-4))
    with pytest.raises(CodesignError, match="other answers than PyTorch"):
        relay_models.require_equal("network", found * np.nan, _Answers(found[0]))


def test_the_trees_are_those_that_peers_were_measured_on() -> None:
    """Written down from the generator that peers used."""
    first = sentences()[0]
    assert _plain(first.dependency) == [3, [[0, [[1, []]]], [2, []], [4, []]]]
    assert first.binary == ((0, 1), ((2, 3), 4))


def _plain(tree: Dependency) -> list[object]:
    return [tree.word, [_plain(child) for child in tree.children]]
