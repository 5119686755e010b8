"""The schemes' study: committed answers keep their bounds, and so does accuracy measured afresh."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.study.question import outside, read_bounds
from experiments.study.schemes.answer import SCHEMES, answers, figure, plain
from experiments.study.schemes.measure import measure_network
from experiments.study.schemes.point import (
    FP32,
    Network,
    Outcome,
    Plan,
    read_plan,
)
from experiments.study.schemes.run import FOLDER, POINTS
from experiments.study.table import read_points, write_points


@pytest.fixture(scope="module")
def committed() -> list[Outcome]:
    return read_points(POINTS, Outcome)


def test_committed_answers_are_within_their_bounds(committed: list[Outcome]) -> None:
    assert outside(answers(committed), read_bounds(FOLDER)) == []


def test_the_plan_was_measured_whole(committed: list[Outcome]) -> None:
    plan = read_plan(FOLDER / "plan.toml")
    wanted = {
        (each.network, each.scheme, each.ranges, each.power_of_two)
        for network in plan.networks
        for each in plan.settings(network)
    }
    wanted |= {
        (layer.name, scheme, "mse", False) for layer in plan.layers for scheme in plan.schemes
    }
    measured = [(each.network, each.scheme, each.ranges, each.power_of_two) for each in committed]
    assert len(measured) == len(set(measured))
    assert set(measured) == wanted


def test_accuracy_measured_afresh_is_within_the_bounds() -> None:
    digits = Network(name="digits", samples=100, calibration=32)
    plan = Plan(schemes=(FP32, *SCHEMES), networks=(digits,))
    found = answers(list(measure_network(plan, digits, lambda _: None)))
    accuracy = {name: value for name, value in found.items() if "top-1" in name}
    assert len(accuracy) == 6
    limits = {name: pair for name, pair in read_bounds(FOLDER).items() if name in accuracy}
    # One of 100 samples is a percent point; the study takes more.
    loose = {name: (low - 1, high + 1) for name, (low, high) in limits.items()}
    assert outside(accuracy, loose) == []


def test_points_are_read_as_they_were_written(committed: list[Outcome], tmp_path: Path) -> None:
    write_points(tmp_path / "points.csv", committed, Outcome)
    assert (tmp_path / "points.csv").read_text() == POINTS.read_text()


def test_the_figure_shows_every_network(committed: list[Outcome]) -> None:
    left, right = figure(committed).axes
    assert [each.get_text() for each in left.get_xticklabels()] == list(
        dict.fromkeys(network for network, _ in plain(committed))
    )
    assert len(right.lines) == 6
