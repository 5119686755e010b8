"""What it would bring to keep activations on chip between layers: at most, and for which layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from codesign.accel.config import AccelConfig
from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.ir.relay.module import Module
from experiments.road.devices import Say
from experiments.study.on_chip.point import LayerPoint
from experiments.study.on_chip.transfers import cycles_without, saved
from experiments.study.question import Answers, OwnQuestion
from experiments.study.table import read_points, write_points
from experiments.sweep.network import prepare

FOLDER: Final = Path(__file__).parent
POINTS: Final = FOLDER / "points.csv"
NETWORKS: Final = ("resnet18", "mobilenet", "lstm-cell", "tree-cell")
BUSES: Final = (32, 64, 128)


def machine(bus_bits: int) -> AccelConfig:
    """Return the preset `base` behind a bus and a memory of 60 cycles of latency."""
    base = preset("base")
    return replace(base, bus_bits=bus_bits, dram=replace(base.dram, latency_cycles=60)).check()


def layer_points(network: str, module: Module, bus_bits: int) -> Iterator[LayerPoint]:
    """Return a quantized network's layers behind a bus; tilings are the estimate's."""
    config = machine(bus_bits)
    executable = driver.compile(module, target="accel", config=config, level=0)
    place = 0
    for step in executable.accel_steps:
        less = saved(step.kernel)
        for record, fitting, every in zip(
            step.kernel.layers, less.fitting, less.every, strict=True
        ):
            yield LayerPoint(
                network=network,
                bus_bits=bus_bits,
                place=place,
                layer=record.name,
                operator=record.operator,
                cycles=record.bound_cycles,
                bound=record.bound,
                fitting_bytes=fitting,
                fitting_cycles=cycles_without(record, fitting, config),
                every_bytes=every,
                every_cycles=cycles_without(record, every, config),
            )
            place += 1


def measure(say: Say) -> None:
    """Compile every network for every bus and write the table of its layers."""
    points: list[LayerPoint] = []
    for network in NETWORKS:
        prepared = prepare(network, say)
        for bus_bits in BUSES:
            points += layer_points(network, prepared.integer, bus_bits)
    write_points(POINTS, points, LayerPoint)


def gains(points: Sequence[LayerPoint]) -> tuple[float, float]:
    """Return the percent of cycles that layers save: of what fits, of every tensor."""
    whole = sum(each.cycles for each in points)
    fitting = sum(each.fitting_cycles for each in points)
    every = sum(each.every_cycles for each in points)
    return 100 * (whole - fitting) / whole, 100 * (whole - every) / whole


def answers_of(points: Sequence[LayerPoint]) -> Answers:
    """Return the greatest gain of each network behind each bus, and how many layers gain."""
    found: dict[str, float] = {}
    for network in NETWORKS:
        for bus_bits in BUSES:
            own = [each for each in points if (each.network, each.bus_bits) == (network, bus_bits)]
            fitting, every = gains(own)
            name = f"{network}, {bus_bits} bits"
            found[f"percent saved, what fits, {name}"] = fitting
            found[f"percent saved, every tensor, {name}"] = every
            gaining = [each for each in own if each.fitting_cycles < each.cycles]
            found[f"layers that gain, what fits, {name}"] = len(gaining)
    return found


def answers() -> Answers:
    """Return the answers from the points that lie beside the question."""
    return answers_of(read_points(POINTS, LayerPoint))


def figure() -> Figure:
    """Return the greatest gain of each network, for what fits and for every tensor, by bus."""
    points = read_points(POINTS, LayerPoint)
    drawn = Figure(figsize=(9, 3.6), layout="constrained")
    panels = drawn.subplots(1, 2, sharey=True)
    for axes, part, title in zip(panels, (0, 1), ("what fits", "every tensor"), strict=True):
        for place, bus_bits in enumerate(BUSES):
            shares = [
                gains([e for e in points if (e.network, e.bus_bits) == (network, bus_bits)])[part]
                for network in NETWORKS
            ]
            across = [index + 0.25 * place for index in range(len(NETWORKS))]
            axes.bar(across, shares, width=0.25, label=f"{bus_bits} bits")
        axes.set_xticks([index + 0.25 for index in range(len(NETWORKS))], NETWORKS)
        axes.set_title(title)
        axes.legend(title="bus", fontsize=8)
    panels[0].set_ylabel("% of cycles saved at most")
    return drawn


QUESTION: Final = OwnQuestion(
    name="on_chip",
    asks="What would it bring to keep activations on chip between layers?",
    folder=FOLDER,
    measure=measure,
    answers=answers,
    figure=figure,
)
