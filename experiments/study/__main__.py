"""Measure one question of the study: python -m experiments.study NAME.

Points of a sweep that build/study holds are not measured again. Points and figure are written
beside the question; the exit code is 1 where an answer leaves its bounds.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from codesign.diagnostics import CodesignError
from experiments.rows.measurement import CONSOLE
from experiments.study.question import OwnQuestion, Question, judge, read_bounds
from experiments.study.questions import OWN_QUESTIONS, QUESTIONS
from experiments.study.schemes import run as schemes
from experiments.sweep.figures import svg
from experiments.sweep.point import Point, points
from experiments.sweep.row import Row
from experiments.sweep.run import points_left, prepare_all, run_points
from experiments.sweep.store import Store
from experiments.sweep.workers import Inline

SCHEMES: Final = "schemes"
"""The question of the CPU: its points are of accuracy, not of a sweep."""

_BUILD: Final = Path("build/study")


def measure_question(question: Question, build: Path) -> list[Row]:
    """Return a question's rows, measured or known from an earlier run; write its Parquet file.

    Raises
    ------
    CodesignError
        A mistake in a plan, a network that cannot be had, a table that is in use.
    """
    wanted: dict[str, Point] = {
        point.identity: point for plan in question.plans() for point in points(plan)
    }
    with Store(build / question.name / "results.duckdb") as store:
        left = points_left(wanted.values(), store)
        for name in dict.fromkeys(point.network for point in left):
            own = [point for point in left if point.network == name]
            networks = prepare_all([name])
            run_points(own, store, partial(Inline, networks), networks)
        store.export(question.points_file, wanted)
        return [row for row in store.rows() if row.point in wanted]


def main(arguments: list[str]) -> int:
    """Measure the named question; exit 1 where it has no answer, 2 where there is none such."""
    if arguments == [SCHEMES]:
        return schemes.main(())
    swept = {each.name: each for each in QUESTIONS}
    own = {each.name: each for each in OWN_QUESTIONS}
    name = arguments[0] if len(arguments) == 1 else ""
    try:
        if name in swept:
            return _on_sweep(swept[name])
        if name in own:
            return _on_own(own[name])
    except CodesignError as error:
        CONSOLE.print(str(error), markup=False)
        return 1
    CONSOLE.print(f"usage: make study STUDY=name, one of: {', '.join((*swept, *own, SCHEMES))}")
    return 2


def _on_sweep(question: Question) -> int:
    rows = measure_question(question, _BUILD)
    _draw(question.figure(rows), question.folder)
    return judge(question.answers(rows), question.bounds())


def _on_own(question: OwnQuestion) -> int:
    question.measure(CONSOLE.print)
    _draw(question.figure(), question.folder)
    return judge(question.answers(), read_bounds(question.folder))


def _draw(figure: Figure, folder: Path) -> None:
    (folder / "figure.svg").write_text(svg(figure), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
