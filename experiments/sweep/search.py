"""Choose configurations by Optuna instead of trying all: several objectives, seeded, resumable."""

from __future__ import annotations

from collections.abc import Mapping

import optuna
from rich.progress import Progress

from codesign.accel.config import AccelConfig
from codesign.diagnostics import CodesignError
from experiments.rows.measurement import CONSOLE
from experiments.sweep.measure import measure
from experiments.sweep.network import Prepared
from experiments.sweep.plan import Knob, Plan, Search
from experiments.sweep.point import Point
from experiments.sweep.row import Row
from experiments.sweep.store import Store


def search(plan: Plan, store: Store, networks: Mapping[str, Prepared]) -> None:
    """Try as many configurations as the plan says for each network.

    A point that the store knows is not measured again, and counts as tried: with the same seed an
    interrupted search makes the same choices again and goes on where it ended. A configuration that
    is refused is told to the sampler as infeasible.
    """
    assert plan.search is not None, "the plan asks for a search"
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    known = {row.point: row for row in store.rows()}
    with Progress(console=CONSOLE) as progress:
        (samples,) = plan.samples or (1,)
        for name in plan.networks:
            task = progress.add_task(name, total=plan.search.trials)
            study = _study(plan.search)
            for _ in range(plan.search.trials):
                trial = study.ask()
                point = Point(
                    network=name,
                    target="accel",
                    config=_suggested(plan, trial),
                    samples=samples,
                    tiling=plan.tiling,
                )
                row = known.get(point.identity)
                if row is None:
                    result = measure(point, networks[name])
                    store.add(result)
                    row = result.row
                    known[point.identity] = row
                _tell(study, trial, row, plan.search)
                progress.advance(task)


def _study(wanted: Search) -> optuna.Study:
    return optuna.create_study(
        directions=["minimize"] * len(wanted.objectives),
        sampler=optuna.samplers.NSGAIISampler(seed=wanted.seed)
        if len(wanted.objectives) > 1
        else optuna.samplers.TPESampler(seed=wanted.seed),
    )


def _suggested(plan: Plan, trial: optuna.Trial) -> AccelConfig:
    chosen: dict[Knob, int] = {
        knob: trial.suggest_categorical("/".join(knob), values)
        for knob, values in plan.grid.items()
    }
    return plan.configured(chosen, plan.bases[0])


def _tell(study: optuna.Study, trial: optuna.Trial, row: Row, wanted: Search) -> None:
    values = [getattr(row, name) for name in wanted.objectives]
    if any(value is None for value in values):
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    else:
        study.tell(trial, values)


def check_search(plan: Plan) -> None:
    """Refuse a search that has nothing to choose or asks for what it does not measure."""
    if plan.search is None:
        return
    if not plan.grid:
        raise CodesignError.of(
            "a search chooses among values of knobs, and the plan's grid has none",
            help="add [grid] with lists of values",
        )
    if len(plan.bases) > 1 or plan.samples is None or len(plan.samples) > 1:
        raise CodesignError.of("a search chooses among knobs: it takes one preset and one number")
    if "accel" not in plan.targets:
        raise CodesignError.of("a search needs the target accel", found=f"{list(plan.targets)}")
