"""Where batching pays, at an equal number of multipliers.

The gain of an array is the cycles of one sample alone on 1x16x16 over those of a sample on the
array, with as many samples at once as its tiles have rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.study.question import Answers, Question
from experiments.study.setting import (
    Memory,
    Setting,
    by_setting,
    per_sample,
    roofline_per_sample,
)
from experiments.sweep.row import Row

NETWORKS: Final = (
    "resnet18",
    "resnet34",
    "resnet50",
    "mobilenet",
    "dcgan",
    "lstm-cell",
    "tree-cell",
)
ONE: Final = "1x16x16"
ARRAYS: Final[Mapping[str, int]] = {"4x8x8": 4, "16x4x4": 16}
"""Arrays with the multipliers of 1x16x16, and the rows of their tiles."""

USUAL: Final = Memory(8, 60)
NARROW: Final = Memory(2, 60)
PUBLISHED: Final = (1.06, 1.16)
"""What the paper reports for convolutional networks on its 4x8x8 array."""


def gain(rows: Mapping[Setting, Row], network: str, shape: str, memory: Memory) -> float:
    """Return how many times as fast a sample becomes."""
    alone = rows[Setting(network, ONE, memory, 1)]
    return per_sample(alone) / per_sample(rows[Setting(network, shape, memory, ARRAYS[shape])])


def predicted(rows: Mapping[Setting, Row], network: str, shape: str, memory: Memory) -> float:
    """Return the gain that the roofline predicts, in whole tiles of both arrays."""
    alone = rows[Setting(network, ONE, memory, 1)]
    together = rows[Setting(network, shape, memory, ARRAYS[shape])]
    return roofline_per_sample(alone) / roofline_per_sample(together)


def answers(rows: Sequence[Row]) -> Answers:
    """Return gains and how far the roofline is from them."""
    known = by_setting(rows)
    found: dict[str, float] = {}
    for memory, word in ((USUAL, "8 B/cycle"), (NARROW, "2 B/cycle")):
        for network in NETWORKS:
            for shape in ARRAYS:
                found[f"gain of {shape}, {network}, {word}"] = gain(known, network, shape, memory)
    every = [
        gain(known, network, shape, memory) / predicted(known, network, shape, memory)
        for network in NETWORKS
        for shape in ARRAYS
        for memory in (USUAL, NARROW)
    ]
    found["least gain / prediction"] = min(every)
    found["greatest gain / prediction"] = max(every)
    for network in ("lstm-cell", "tree-cell"):
        one = per_sample(known[Setting(network, ONE, USUAL, 1)])
        idle = per_sample(known[Setting(network, "16x4x4", USUAL, 1)])
        found[f"cost of one sample on 16x4x4, {network}"] = idle / one
        whole = per_sample(known[Setting(network, "16x4x4", USUAL, 16)])
        ragged = per_sample(known[Setting(network, "16x4x4", USUAL, 20)])
        found[f"cost of 20 samples beside 16 on 16x4x4, {network}"] = ragged / whole
    return found


def figure(rows: Sequence[Row]) -> Figure:
    """Return the gains of all networks as bars, each with the roofline's prediction."""
    known = by_setting(rows)
    drawn = Figure(figsize=(10, 4.5), layout="constrained")
    left, right = drawn.subplots(1, 2, sharey=True)
    _bars(left, known, USUAL)
    _bars(right, known, NARROW)
    left.set_ylabel(f"samples per second over {ONE} at one sample")
    left.legend(fontsize=8)
    return drawn


def _bars(axes: Axes, known: Mapping[Setting, Row], memory: Memory) -> None:
    axes.axhspan(*PUBLISHED, color="lightgrey", label="published, convolutions on 4x8x8")
    for place, shape in enumerate(ARRAYS):
        across = [index + 0.4 * (place - 0.5) for index in range(len(NETWORKS))]
        gains = [gain(known, network, shape, memory) for network in NETWORKS]
        roofs = [predicted(known, network, shape, memory) for network in NETWORKS]
        axes.bar(across, gains, width=0.38, label=f"{shape}, {ARRAYS[shape]} samples")
        axes.plot(
            across,
            roofs,
            linestyle="none",
            marker="_",
            markersize=14,
            color="black",
            label="the roofline's prediction" if place else None,
        )
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log", base=2)
    axes.set_xticks(range(len(NETWORKS)), NETWORKS, rotation=45, ha="right")
    axes.set_title(f"{memory.bytes_per_cycle} byte/cycle, latency {memory.latency_cycles} cycles")


QUESTION: Final = Question(
    name="batching",
    asks="Where does batching pay, at an equal number of multipliers?",
    folder=Path(__file__).parent,
    answers=answers,
    figure=figure,
)
