"""The hardware study: committed answers keep their bounds, and so do points measured afresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from codesign.accel.config import AccelConfig
from experiments.study.question import Question, outside
from experiments.study.questions import QUESTIONS
from experiments.study.setting import Memory, identity_of_point, identity_of_row, shape
from experiments.sweep.measure import measure
from experiments.sweep.network import prepare
from experiments.sweep.point import Point, points
from experiments.sweep.row import Row

SLACK = 0.05
"""How far a point may move when the compiler changes, before the study is measured anew."""


@pytest.fixture(params=[each.name for each in QUESTIONS])
def question(request: pytest.FixtureRequest) -> Question:
    return _named(request.param)


def _named(name: str) -> Question:
    return next(each for each in QUESTIONS if each.name == name)


def _chosen(question: Question, network: str, keep: Callable[[Point], bool]) -> list[Point]:
    every = [point for plan in question.plans() for point in points(plan)]
    unique = {identity_of_point(point): point for point in every if point.target == "accel"}
    return [each for each in unique.values() if each.network == network and keep(each)]


def _hold_afresh(question: Question, network: str, keep: Callable[[Point], bool]) -> None:
    """Measure points again: near what is committed, and the answers with them within bounds."""
    prepared = prepare(network, lambda _: None)
    chosen = _chosen(question, network, keep)
    assert chosen, "the plan has such points"
    fresh = {identity_of_point(point): measure(point, prepared).row for point in chosen}
    rows = question.rows()
    for row in rows:
        found = fresh.get(identity_of_row(row))
        if found is not None:
            assert found.status == "done", found.reason
            assert found.cycles == pytest.approx(row.cycles, rel=SLACK)
            assert found.moved_bytes == pytest.approx(row.moved_bytes, rel=SLACK)
    merged = [_with_host_time(fresh.get(identity_of_row(row), row), row) for row in rows]
    assert outside(question.answers(merged), question.bounds()) == []


def _with_host_time(row: Row, committed: Row) -> Row:
    """Leave out what another machine, or a busy one, takes for the host's share."""
    return replace(row, host_ms=committed.host_ms)


def test_committed_answers_are_within_their_bounds(question: Question) -> None:
    assert outside(question.answers(question.rows()), question.bounds()) == []


def test_every_point_of_the_plans_is_committed(question: Question) -> None:
    planned = {identity_of_point(point) for plan in question.plans() for point in points(plan)}
    assert planned == {identity_of_row(row) for row in question.rows()}


def test_readme_asks_the_question_and_shows_the_figure(question: Question) -> None:
    text = (question.folder / "README.md").read_text(encoding="utf-8")
    assert question.asks in text
    assert f"make study STUDY={question.name}" in text
    assert "figure.svg" in text
    assert (question.folder / "figure.svg").is_file()


def test_figures_are_drawn_from_rows_alone() -> None:
    question = _named("batching")
    panels = question.figure(question.rows()).axes
    assert [panel.get_title()[:11] for panel in panels] == ["8 byte/cycl", "2 byte/cycl"]


def test_an_answer_outside_its_bounds_is_named() -> None:
    bounds = {"a": (1.0, 2.0), "b": (0.0, 1.0)}
    assert outside({"a": 2.5, "c": 1.0}, bounds) == [
        "c: no bounds are stated",
        "a: 2.5 is not within 1 … 2",
        "b: it was not measured",
    ]


def test_batching_of_trees_holds_afresh() -> None:
    def keep(point: Point) -> bool:
        memory = Memory.of(point.config)
        filled = point.samples == point.config.batch
        return filled and point.config.batch in (1, 16) and memory == Memory(2, 60)

    _hold_afresh(_named("batching"), "tree-cell", keep)


def test_bandwidth_of_a_cell_holds_afresh() -> None:
    _hold_afresh(
        _named("bandwidth"), "lstm-cell", lambda point: point.config.dram.latency_cycles == 60
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "network", "array"),
    [
        ("batching", "resnet18", "4x8x8"),
        ("array_shape", "mobilenet", "1x8x8"),
        ("scratchpad_size", "resnet18", "1x16x16"),
        ("fusion", "resnet18+apart", "1x16x16"),
        ("backends", "digits", "1x16x16"),
    ],
)
def test_networks_hold_afresh(name: str, network: str, array: str) -> None:
    question = _named(name)
    first = _chosen(question, network, lambda point: shape(point.config) == array)[:2]
    _hold_afresh(question, network, lambda point: point in first)


def test_shapes_read_as_the_study_writes_them() -> None:
    assert shape(AccelConfig(batch=4, block_in=8, block_out=8)) == "4x8x8"
