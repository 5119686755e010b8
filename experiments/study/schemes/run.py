"""Measures the schemes' study, or some networks of it.

Points, figure and answers are written beside the question. With names, only these networks are
measured and the points of others are kept. The exit code is 1
where an answer leaves its bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from experiments.rows.measurement import CONSOLE
from experiments.study.question import judge, read_bounds
from experiments.study.schemes.answer import answers, figure
from experiments.study.schemes.layers import measure_layer
from experiments.study.schemes.measure import measure_network
from experiments.study.schemes.point import Outcome, read_plan
from experiments.study.table import read_points, write_points
from experiments.sweep.figures import save_figure

FOLDER: Final = Path(__file__).parent
POINTS: Final = FOLDER / "points.csv"


def measure(names: Sequence[str]) -> list[Outcome]:
    """Measure the named networks, or all; return all points."""
    plan = read_plan(FOLDER / "plan.toml")
    chosen = set(names or plan.names)
    measured: list[Outcome] = []
    for network in plan.networks:
        if network.name in chosen:
            measured += measure_network(plan, network, CONSOLE.print)
    for layer in plan.layers:
        if layer.name in chosen:
            measured += measure_layer(plan.schemes, layer, CONSOLE.print)
    kept = (
        [each for each in read_points(POINTS, Outcome) if each.network not in chosen]
        if names
        else []
    )
    order = plan.names
    return sorted(kept + measured, key=lambda each: order.index(each.network))


def main(arguments: Sequence[str]) -> int:
    """Measure, write and judge; return the exit code."""
    points = measure(arguments)
    write_points(POINTS, points, Outcome)
    save_figure(figure(points), FOLDER / "figure")
    return judge(answers(points), read_bounds(FOLDER))
