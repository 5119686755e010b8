"""What each backend makes of the same networks: samples in a second, and in a joule.

Power of the processor: a 64th of the 280 W that AMD states for the EPYC 7763, of whose family and
model (25, 1) the machine that measured is; one core, no memory. Energy of the accelerator: the
table of `sweep/energy.py`, DRAM included, of 45 nm CMOS. Power of a GPU: 700 W, what NVIDIA states
for an H200 as a whole. The first and the last are limits and not measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from experiments.study.question import Answers, Question
from experiments.sweep.row import Row

NETWORKS: Final = ("digits", "resnet18", "mobilenet", "lstm-cell", "tree-cell")
TARGETS: Final = ("accel", "cpu", "gpu")
CPU_W: Final = 280 / 64
GPU_W: Final = 700.0


def samples_per_second(row: Row) -> float | None:
    """Return how many samples a backend runs in a second, host included; None where it cannot."""
    if row.time_ms is None:
        return None
    return row.samples / (row.time_ms + (row.host_ms or 0)) * 1e3


def samples_per_joule(row: Row) -> float | None:
    """Return how many samples a joule is enough for; None where the backend cannot run them."""
    rate = samples_per_second(row)
    if rate is None:
        return None
    host_j = CPU_W * (row.host_ms or 0) / 1e3
    match row.target:
        case "accel":
            return row.samples / ((row.energy_uj or 0) / 1e6 + host_j)
        case "cpu":
            return rate / CPU_W
        case _:
            return rate / GPU_W


def answers(rows: Sequence[Row]) -> Answers:
    """Return both figures for each network on each backend that runs it."""
    found: dict[str, float] = {}
    for row in _ordered(rows):
        rate, economy = samples_per_second(row), samples_per_joule(row)
        if rate is not None and economy is not None:
            found[f"{row.network} on {row.target}, samples/s"] = rate
            found[f"{row.network} on {row.target}, samples/J"] = economy
    return found


def missing(rows: Sequence[Row]) -> dict[str, str]:
    """Return why a backend ran nothing, by its name."""
    return {row.target: row.reason for row in rows if row.time_ms is None}


def figure(rows: Sequence[Row]) -> Figure:
    """Return samples in a second and in a joule as bars."""
    drawn = Figure(figsize=(10, 4), layout="constrained")
    left, right = drawn.subplots(1, 2)
    known = {(row.network, row.target): row for row in rows}
    targets = [each for each in TARGETS if each not in missing(rows)]
    for place, target in enumerate(targets):
        across = [index + 0.8 * (place + 0.5) / len(targets) for index in range(len(NETWORKS))]
        own = [known[network, target] for network in NETWORKS]
        left.bar(across, [samples_per_second(row) or 0 for row in own], width=0.35, label=target)
        right.bar(across, [samples_per_joule(row) or 0 for row in own], width=0.35, label=target)
    for axes, unit in ((left, "samples/s"), (right, "samples/J")):
        axes.set_xticks([i + 0.4 for i in range(len(NETWORKS))], NETWORKS, rotation=45, ha="right")
        axes.set_yscale("log")
        axes.set_ylabel(unit)
        axes.legend(fontsize=8)
    absent = "; ".join(f"{target}: {reason}" for target, reason in missing(rows).items())
    drawn.suptitle(absent or "all backends", fontsize=8)
    return drawn


def _ordered(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (NETWORKS.index(row.network), TARGETS.index(row.target)))


QUESTION: Final = Question(
    name="backends",
    asks="What do CPU, GPU and accelerator make of the same networks?",
    folder=Path(__file__).parent,
    answers=answers,
    figure=figure,
)
