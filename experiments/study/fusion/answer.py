"""What it saves to fuse sums and tables into the layer before.

Three ways to run the same network: sums with residuals and tables in the epilogue of the layer
before (fused), as layers of their own (apart), on the host. Of the host, its processor
time on the machine that measured counts, and no copies: it is the least that it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments.study.question import Answers, Question
from experiments.study.setting import configuration, on_accelerator
from experiments.sweep.network import APART
from experiments.sweep.row import Row

NETWORKS: Final = ("resnet18", "lstm-cell")
WAYS: Final = ("fused", "apart", "host")


def ways(rows: Sequence[Row], network: str) -> dict[str, Row]:
    """Return a network's rows by the way in which its sums and tables run."""
    found = {"apart": on_accelerator(rows, network + APART)[0]}
    for row in on_accelerator(rows, network):
        config = configuration(row)
        found["fused" if config.has_multiplier and config.has_lut else "host"] = row
    return found


def milliseconds(row: Row) -> float:
    """Return the time of a sample, accelerator and host one after the other."""
    assert row.time_ms is not None, "rows that were refused have no way"
    return row.time_ms + (row.host_ms or 0)


def answers(rows: Sequence[Row]) -> Answers:
    """Return cycles, bytes and time over those of the fused network."""
    found: dict[str, float] = {}
    for network in NETWORKS:
        known = ways(rows, network)
        fused, apart = known["fused"], known["apart"]
        assert fused.cycles is not None, "rows that were refused have no way"
        assert apart.cycles is not None, "rows that were refused have no way"
        found[f"cycles, apart / fused, {network}"] = apart.cycles / fused.cycles
        moved = (apart.moved_bytes or 0) / (fused.moved_bytes or 1)
        found[f"bytes, apart / fused, {network}"] = moved
        if "host" in known:
            times = milliseconds(known["host"]), milliseconds(fused)
            found[f"time, host / fused, {network}"] = times[0] / times[1]
    return found


def figure(rows: Sequence[Row]) -> Figure:
    """Return the time of a sample in each way, split into accelerator and host."""
    drawn = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, network in zip(drawn.subplots(1, len(NETWORKS)), NETWORKS, strict=True):
        known = ways(rows, network)
        shown = [way for way in WAYS if way in known]
        on_chip = [known[way].time_ms or 0 for way in shown]
        off_chip = [known[way].host_ms or 0 for way in shown]
        axes.bar(shown, on_chip, label="accelerator")
        axes.bar(shown, off_chip, bottom=on_chip, label="host")
        axes.set_title(network)
        axes.set_ylabel("ms of a sample")
        axes.legend(fontsize=8)
    return drawn


QUESTION: Final = Question(
    name="fusion",
    asks="What does it save to fuse sums and tables into the layer before?",
    folder=Path(__file__).parent,
    answers=answers,
    figure=figure,
)
