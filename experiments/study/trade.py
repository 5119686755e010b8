"""Time against area and energy, as the study draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.study.setting import of_one_sample
from experiments.sweep.figures import LABELS
from experiments.sweep.pareto import front
from experiments.sweep.row import Row

COLUMNS: Final = ("time_ms", "lut_count", "energy_uj")
"""What a design is to have little of: time and energy of a sample, area."""


def best(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, of one sample each, that no other beats in time, area and energy."""
    return front([of_one_sample(row) for row in rows], COLUMNS)


def trade_figure(networks: Mapping[str, Sequence[Row]], label: Callable[[Row], str]) -> Figure:
    """Return a line of two panels to each network: area and energy over the time of a sample."""
    figure = Figure(figsize=(10, 3.8 * len(networks)), layout="constrained")
    panels = figure.subplots(len(networks), 2, squeeze=False)
    for (left, right), (network, rows) in zip(panels, networks.items(), strict=True):
        _panel(left, rows, "lut_count", label)
        _panel(right, rows, "energy_uj", label)
        left.set_title(f"{network}: area")
        right.set_title(f"{network}: energy")
    return figure


def _panel(axes: Axes, rows: Sequence[Row], up: str, label: Callable[[Row], str]) -> None:
    shown = [of_one_sample(row) for row in rows]
    held = {row.point for row in best(rows)}
    for row, alone in zip(rows, shown, strict=True):
        place = float(alone.time_ms or 0), float(getattr(alone, up))
        colour = "tab:blue" if row.point in held else "lightgrey"
        axes.scatter(*place, s=30, color=colour, edgecolor="black", linewidth=0.4)
        axes.annotate(label(row), place, fontsize=7, xytext=(3, 3), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"{LABELS['time_ms']} of a sample; blue: on the front of time, LUTs, energy")
    axes.set_ylabel(LABELS[up])
    axes.grid(visible=True, which="both", alpha=0.2)
