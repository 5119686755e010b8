"""What the shape of the array buys in time, area and energy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments.study.question import Answers, Question
from experiments.study.setting import configuration, energy_per_sample, on_accelerator, per_sample
from experiments.study.setting import shape as array_of
from experiments.study.trade import best, trade_figure
from experiments.sweep.row import Row

NETWORKS: Final = ("resnet18", "mobilenet")
REFERENCE: Final = "1x16x16"


def answers(rows: Sequence[Row]) -> Answers:
    """Return cycles and energy of a sample over those of the reference, and who is on the front."""
    found: dict[str, float] = {}
    for network in NETWORKS:
        known = {array_of(configuration(row)): row for row in on_accelerator(rows, network)}
        base = known[REFERENCE]
        for shape, row in sorted(known.items()):
            if shape == REFERENCE:
                continue
            found[f"cycles of {shape} / {REFERENCE}, {network}"] = per_sample(row) / per_sample(
                base
            )
            energies = energy_per_sample(row), energy_per_sample(base)
            found[f"energy of {shape} / {REFERENCE}, {network}"] = energies[0] / energies[1]
        found[f"arrays on the front, {network}"] = len(best(list(known.values())))
    return found


def figure(rows: Sequence[Row]) -> Figure:
    """Return area and energy over the time of a sample."""
    shown = {network: on_accelerator(rows, network) for network in NETWORKS}
    return trade_figure(shown, lambda row: array_of(configuration(row)))


QUESTION: Final = Question(
    name="array_shape",
    asks="What does the shape of the array buy in time, area and energy?",
    folder=Path(__file__).parent,
    answers=answers,
    figure=figure,
)
