"""How much scratchpad is enough."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from codesign.accel.config import Memory
from experiments.study.question import Answers, Question
from experiments.study.setting import configuration, energy_per_sample, on_accelerator, per_sample
from experiments.study.trade import best, trade_figure
from experiments.sweep.row import Row

NETWORK: Final = "resnet18"
REFERENCE: Final = (256, 128)
"""The preset's KiB of weights and of sums."""


def sizes(row: Row) -> tuple[int, int]:
    """Return the KiB of weights and of sums that a row's configuration holds."""
    config = configuration(row)
    return config.memory_bytes(Memory.WGT) // 1024, config.memory_bytes(Memory.ACC) // 1024


def answers(rows: Sequence[Row]) -> Answers:
    """Return cycles, bytes and energy over the preset's for each pair of sizes."""
    known = {sizes(row): row for row in on_accelerator(rows, NETWORK)}
    base = known[REFERENCE]
    found: dict[str, float] = {}
    for (weights, sums), row in sorted(known.items()):
        if (weights, sums) == REFERENCE:
            continue
        name = f"{weights} KiB of weights, {sums} KiB of sums"
        found[f"cycles, {name}"] = per_sample(row) / per_sample(base)
        found[f"bytes, {name}"] = (row.moved_bytes or 0) / (base.moved_bytes or 1)
        found[f"energy, {name}"] = energy_per_sample(row) / energy_per_sample(base)
    found["sizes on the front"] = len(best(list(known.values())))
    return found


def figure(rows: Sequence[Row]) -> Figure:
    """Return area and energy over the time of a sample."""
    shown = {NETWORK: on_accelerator(rows, NETWORK)}
    return trade_figure(shown, lambda row: "{} + {} KiB".format(*sizes(row)))


QUESTION: Final = Question(
    name="scratchpad_size",
    asks="How much scratchpad is enough?",
    folder=Path(__file__).parent,
    answers=answers,
    figure=figure,
)
