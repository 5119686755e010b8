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
from experiments.road.layers import LayerRow

_COLOURS: Final = {"gemm": "tab:blue", "vector": "tab:orange", "memory": "tab:red"}


def draw_roofline(rows: tuple[LayerRow, ...], config: AccelConfig, title: str, path: Path) -> None:
    """Write a PNG: useful MAC/cycle over MAC/byte of every layer that multiplies, and roofs."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    shown = [row for row in rows if row.macs and row.bytes and row.cycles]
    bandwidth = config.bus_bytes / config.beat_interval
    low = min([row.intensity for row in shown] + [config.macs / bandwidth]) / 2
    high = max([row.intensity for row in shown] + [config.macs / bandwidth]) * 2
    grid = np.geomspace(low, high, 200)
    roof = np.minimum(config.macs, grid * bandwidth)
    axes.loglog(
        grid, roof, color="black", label=f"{config.macs} MAC/cycle, {bandwidth:g} byte/cycle"
    )
    for bound, colour in _COLOURS.items():
        held = [row for row in shown if row.bound == bound]
        axes.scatter(
            [row.intensity for row in held],
            [row.macs / row.cycles for row in held],
            s=[20 + 400 * row.cycles / sum(each.cycles for each in shown) for row in held],
            color=colour,
            alpha=0.6,
            label=f"{bound}-bound layers ({len(held)})",
        )
    axes.set_xlabel("arithmetic intensity (useful MAC / byte)")
    axes.set_ylabel("throughput (useful MAC / cycle)")
    axes.set_title(f"{title}: area of a point = its share of the cycles")
    axes.legend(loc="lower right")
    axes.grid(visible=True, which="both", alpha=0.2)
    with mpl.rc_context({"svg.hashsalt": "codesign"}):
        figure.savefig(path, dpi=120, metadata={"Software": None})
