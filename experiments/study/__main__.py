"""Measure one question of the study: python -m experiments.study NAME.

Points that build/study holds are not measured again. Points, figure and answers are written beside
the question; the exit code is 1 where an answer leaves its bounds.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Final

from codesign.diagnostics import CodesignError
from experiments.rows.measurement import CONSOLE
from experiments.study.question import Question, outside
from experiments.study.questions import QUESTIONS
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
    found = {each.name: each for each in QUESTIONS}
    if len(arguments) != 1 or arguments[0] not in found:
        CONSOLE.print(f"usage: make study STUDY=name, one of: {', '.join((*found, SCHEMES))}")
        return 2
    question = found[arguments[0]]
    try:
        rows = measure_question(question, _BUILD)
        answers = question.answers(rows)
        drawn = svg(question.figure(rows))
        (question.folder / "figure.svg").write_text(drawn, encoding="utf-8")
    except CodesignError as error:
        CONSOLE.print(str(error), markup=False)
        return 1
    for name, value in answers.items():
        sys.stdout.write(f"{name}: {value:.4g}\n")
    wrong = outside(answers, question.bounds())
    for line in wrong:
        CONSOLE.print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
