"""What a question of the study is: plans to measure, answers with bounds, a figure."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

from matplotlib.figure import Figure

from experiments.road.devices import Say
from experiments.rows.measurement import CONSOLE
from experiments.sweep.plan import Plan, read_plan
from experiments.sweep.row import Row
from experiments.sweep.store import rows_of_file

Answers: TypeAlias = Mapping[str, float]
"""Figures by their names, which say what they are and in which unit."""

Bounds: TypeAlias = Mapping[str, tuple[float, float]]
"""The least and the greatest that a figure may be."""


@final
@dataclass(frozen=True, kw_only=True)
class Question:
    """One question; `folder` holds its plans, points, bounds, figure and README.

    `answers` and `figure` are functions of the measured rows alone.
    """

    name: str
    asks: str
    folder: Path
    answers: Callable[[Sequence[Row]], Answers]
    figure: Callable[[Sequence[Row]], Figure]

    @property
    def points_file(self) -> Path:
        """The measured points, as Parquet."""
        return self.folder / "points.parquet"

    def plans(self) -> tuple[Plan, ...]:
        """Return the plans, in the order of their files' names."""
        return tuple(read_plan(path) for path in sorted(self.folder.glob("*.plan.toml")))

    def rows(self) -> list[Row]:
        """Return the points that lie beside the question."""
        return rows_of_file(self.points_file)

    def bounds(self) -> Bounds:
        """Return the bounds of each answer."""
        return read_bounds(self.folder)


@final
@dataclass(frozen=True, kw_only=True)
class OwnQuestion:
    """A question whose points are not a sweep's: `measure` writes them to the folder.

    `answers` and `figure` are functions of what lies there.
    """

    name: str
    asks: str
    folder: Path
    measure: Callable[[Say], None]
    answers: Callable[[], Answers]
    figure: Callable[[], Figure]


def read_bounds(folder: Path) -> Bounds:
    """Return the bounds of each answer that a question's folder states."""
    text = (folder / "bounds.toml").read_text(encoding="utf-8")
    return {name: (low, high) for name, (low, high) in tomllib.loads(text).items()}


def judge(answers: Answers, bounds: Bounds) -> int:
    """Print the answers; return the exit code, 1 where one leaves its bounds."""
    for name, value in answers.items():
        sys.stdout.write(f"{name}: {value:.4g}\n")
    wrong = outside(answers, bounds)
    for line in wrong:
        CONSOLE.print(line)
    return 1 if wrong else 0


def outside(answers: Answers, bounds: Bounds) -> list[str]:
    """Return a line to each answer that is missing or not within its bounds."""
    lines = [f"{name}: no bounds are stated" for name in answers if name not in bounds]
    for name, (low, high) in bounds.items():
        if name not in answers:
            lines.append(f"{name}: it was not measured")
        elif not low <= answers[name] <= high:
            lines.append(f"{name}: {answers[name]:.4g} is not within {low:g} … {high:g}")
    return lines
