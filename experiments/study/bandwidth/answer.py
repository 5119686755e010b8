"""Where more bandwidth, or less latency, stops to help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments.study.question import Answers, Question
from experiments.study.setting import Memory, Setting, by_setting, roofline_per_sample
from experiments.sweep.row import Row

NETWORKS: Final = ("resnet18", "mobilenet", "lstm-cell")
ARRAY: Final = "1x16x16"
BYTES: Final = (4, 8, 16)
LATENCIES: Final = (1, 60, 200)


def answers(rows: Sequence[Row]) -> Answers:
    """Return cycles over those of the widest and quickest memory, and the least roofline share."""
    known = by_setting(rows)
    found: dict[str, float] = {}
    for network in NETWORKS:
        best = known[Setting(network, ARRAY, Memory(max(BYTES), min(LATENCIES)), 1)]
        shares = []
        for width in BYTES:
            for latency in LATENCIES:
                row = known[Setting(network, ARRAY, Memory(width, latency), 1)]
                assert row.cycles is not None, "rows that were refused have no setting"
                assert best.cycles is not None, "rows that were refused have no setting"
                shares.append(100 * roofline_per_sample(row) / row.cycles)
                name = f"cycles at {width} B/cycle, latency {latency}, {network}"
                found[name] = row.cycles / best.cycles
        found[f"least percent of the roofline, {network}"] = min(shares)
    return found


def figure(rows: Sequence[Row]) -> Figure:
    """Return cycles over bandwidth, a line to each latency, and the roofline's."""
    known = by_setting(rows)
    drawn = Figure(figsize=(11, 3.8), layout="constrained")
    for axes, network in zip(drawn.subplots(1, len(NETWORKS)), NETWORKS, strict=True):
        for latency in LATENCIES:
            own = [known[Setting(network, ARRAY, Memory(width, latency), 1)] for width in BYTES]
            cycles = [row.cycles for row in own]
            axes.plot(BYTES, cycles, marker="o", markersize=4, label=f"latency {latency}")
        axes.plot(
            BYTES,
            [roofline_per_sample(row) for row in own],
            linestyle="--",
            color="black",
            label="roofline",
        )
        axes.set_title(network)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(BYTES, [str(width) for width in BYTES])
        axes.set_xlabel("byte/cycle")
        axes.set_ylabel("cycles of a sample")
        axes.legend(fontsize=8)
    return drawn


QUESTION: Final = Question(
    name="bandwidth",
    asks="Where does more bandwidth, or less latency, stop to help?",
    folder=Path(__file__).parent,
    answers=answers,
    figure=figure,
)
