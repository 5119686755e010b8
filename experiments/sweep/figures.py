"""Figures of a sweep as SVG and PNG: Pareto fronts, the roofline of a point, bars of its layers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from codesign.accel.config import AccelConfig
from experiments.road.layers import LayerRow
from experiments.road.roofline import roofline
from experiments.sweep.pareto import front
from experiments.sweep.row import LayerCost, Row

LABELS: Final = {
    "time_ms": "time (ms)",
    "cycles": "cycles",
    "energy_uj": "energy (µJ, 45 nm table)",
    "lut_count": "LUTs (estimate, ECP5)",
    "dsp_count": "multipliers (estimate, ECP5)",
    "block_ram_18kbit_count": "block RAMs of 18 kbit (estimate, ECP5)",
    "moved_bytes": "bytes moved",
}
_BOUNDS: Final = {"gemm": "tab:blue", "vector": "tab:orange", "memory": "tab:red"}


def pareto_figure(rows: Sequence[Row], across: str, up: str) -> Figure:
    """Return every point of one network in two columns, and the front as a line of steps."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    shown = [row for row in rows if getattr(row, across) is not None]
    for bound, colour in _BOUNDS.items():
        held = [row for row in shown if row.bound == bound]
        if not held:
            continue
        axes.scatter(
            [getattr(row, across) for row in held],
            [getattr(row, up) for row in held],
            s=14,
            color=colour,
            alpha=0.5,
            label=f"{bound}-bound ({len(held)})",
        )
    best = sorted(front(shown, (across, up)), key=lambda row: float(getattr(row, across)))
    axes.step(
        [getattr(row, across) for row in best],
        [getattr(row, up) for row in best],
        where="post",
        color="black",
        marker="o",
        markersize=4,
        label=f"Pareto front ({len(best)})",
    )
    axes.set_xlabel(LABELS[across])
    axes.set_ylabel(LABELS[up])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend()
    return figure


def layers_figure(layers: Sequence[LayerCost]) -> Figure:
    """Return a bar to each layer: its cycles, and within it those of its busiest unit."""
    figure = Figure(figsize=(max(7, 0.22 * len(layers)), 4), layout="constrained")
    axes = figure.subplots()
    places = range(len(layers))
    axes.bar(places, [each.cycles for each in layers], color="lightgrey", label="cycles")
    for bound, colour in _BOUNDS.items():
        held = [place for place in places if layers[place].bound == bound]
        if not held:
            continue
        axes.bar(
            held,
            [layers[place].busiest_cycles for place in held],
            width=0.5,
            color=colour,
            label=f"of the busiest: {bound}",
        )
    axes.set_xticks(places, [each.layer for each in layers], rotation=90, fontsize=7)
    axes.set_ylabel("cycles that the layer adds to the run")
    axes.legend()
    return figure


def roofline_figure(layers: Sequence[LayerCost], config: AccelConfig, title: str) -> Figure:
    """Return the roofline of one point."""
    rows = tuple(
        LayerRow(
            name=each.layer,
            operator=each.operator,
            unit=each.unit,
            cycles=each.cycles,
            least_cycles=each.busiest_cycles,
            bound=each.bound,
            macs=each.macs,
            bytes=each.moved_bytes,
        )
        for each in layers
    )
    return roofline(rows, config, title)


def save_figure(figure: Figure, stem: Path) -> None:
    """Write a figure as `stem.svg` and `stem.png`."""
    stem.with_suffix(".svg").write_text(svg(figure), encoding="utf-8")
    figure.savefig(stem.with_suffix(".png"), dpi=120, metadata={"Software": None})


def svg(figure: Figure) -> str:
    """Return a figure as SVG; equal figures give equal text."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "codesign"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
