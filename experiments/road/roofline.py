"""The roofline of a run: every layer between the memory's slope and the array's ceiling.

Source: Williams, Waterman and Patterson, Roofline (CACM 2009).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from codesign.accel.config import AccelConfig
from codesign.accel.peaks import peaks
from experiments.road.layers import LayerRow

_COLOURS: Final = {"gemm": "tab:blue", "vector": "tab:orange", "memory": "tab:red"}


def draw_roofline(rows: tuple[LayerRow, ...], config: AccelConfig, title: str, path: Path) -> None:
    """Write the roofline as a PNG."""
    figure = roofline(rows, config, f"{title}; a point's area grows with its share of the cycles")
    with mpl.rc_context({"svg.hashsalt": "codesign"}):
        figure.savefig(path, dpi=120, metadata={"Software": None})


def roofline(rows: tuple[LayerRow, ...], config: AccelConfig, title: str) -> Figure:
    """Return useful MAC/cycle over MAC/byte of every layer that multiplies, and the roof.

    A layer's cycles are those that it adds to the run: one that overlaps its predecessor well may
    stand a little above the roof.
    """
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    shown = [row for row in rows if row.macs and row.bytes and row.cycles]
    peak = peaks(config)
    intensities = [*(row.intensity for row in shown), peak.ridge]
    grid = np.geomspace(min(intensities) / 2, max(intensities) * 2, 200)
    roof = [peak.attainable(each) for each in grid]
    axes.loglog(
        grid,
        roof,
        color="black",
        label=f"{peak.macs_per_cycle} MAC/cycle, {peak.bytes_per_cycle:g} byte/cycle",
    )
    for bound, colour in _COLOURS.items():
        held = [row for row in shown if row.bound == bound]
        axes.scatter(
            [row.intensity for row in held],
            [row.macs / row.cycles for row in held],
            s=[20 + 2000 * row.cycles / sum(each.cycles for each in shown) for row in held],
            color=colour,
            alpha=0.6,
            label=f"{bound}-bound layers ({len(held)})",
        )
    axes.set_xlabel("arithmetic intensity (useful MAC / byte)")
    axes.set_ylabel("throughput (useful MAC / cycle)")
    axes.set_title(title)
    axes.legend(loc="lower right")
    axes.grid(visible=True, which="both", alpha=0.2)
    return figure
