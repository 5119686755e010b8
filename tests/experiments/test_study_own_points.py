"""Questions with points of their own: committed answers keep their bounds and figures are there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.study.question import OwnQuestion, judge, outside, read_bounds
from experiments.study.questions import OWN_QUESTIONS
from experiments.study.table import read_points, write_points


@dataclass(frozen=True)
class _Point:
    name: str
    count: int
    share: float
    is_whole: bool
    time_ms: float | None


@pytest.fixture(params=OWN_QUESTIONS, ids=lambda each: each.name)
def question(request: pytest.FixtureRequest) -> OwnQuestion:
    found = request.param
    assert isinstance(found, OwnQuestion)
    return found


def test_committed_answers_of_own_points_are_within_their_bounds(question: OwnQuestion) -> None:
    assert outside(question.answers(), read_bounds(question.folder)) == []


def test_readme_of_own_points_asks_the_question_and_shows_the_figure(question: OwnQuestion) -> None:
    text = (question.folder / "README.md").read_text(encoding="utf-8")
    assert question.asks in text
    assert f"make study STUDY={question.name}" in text
    assert "figure.svg" in text
    assert (question.folder / "figure.svg").is_file()


def test_figures_are_drawn_from_own_points_alone(question: OwnQuestion) -> None:
    assert all(panel.lines or panel.patches for panel in question.figure().axes)


def test_a_table_of_points_is_read_as_it_was_written(tmp_path: Path) -> None:
    points = [_Point("a, b", 3, 0.25, True, None), _Point("", -1, 2.0, False, 1.5)]
    write_points(tmp_path / "points.csv", points, _Point)
    text = (tmp_path / "points.csv").read_text(encoding="utf-8")
    assert text == 'name,count,share,is_whole,time_ms\n"a, b",3,0.25,True,\n,-1,2,False,1.5\n'
    assert read_points(tmp_path / "points.csv", _Point) == points


def test_an_answer_that_leaves_its_bounds_is_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert judge({"a": 1.0}, {"a": (0.0, 1.0)}) == 0
    assert judge({"a": 1.5}, {"a": (0.0, 1.0)}) == 1
    assert capsys.readouterr().out == "a: 1\na: 1.5\n"
