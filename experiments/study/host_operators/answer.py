"""Why softmax and layer normalization are the host's, and what they would cost on chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.road.devices import Say
from experiments.study.host_operators.measure import every_error, every_time, machine
from experiments.study.host_operators.point import (
    CHAINS,
    HOST,
    HOST_FROM_INT8,
    LAYER_NORM,
    SOFTMAX,
    ErrorPoint,
    TimePoint,
)
from experiments.study.question import Answers, OwnQuestion
from experiments.study.table import read_points, write_points

FOLDER: Final = Path(__file__).parent
ERRORS: Final = FOLDER / "errors.csv"
TIMES: Final = FOLDER / "times.csv"
BERT: Final = {SOFTMAX: 128, LAYER_NORM: 768}
"""Lengths of the rows of BERT-base with 128 tokens."""

Times: TypeAlias = Mapping[tuple[str, int, str], TimePoint]
"""Times by operator, length and way."""


def measure(say: Say) -> None:
    """Measure errors and times and write their tables."""
    write_points(ERRORS, every_error(say), ErrorPoint)
    write_points(TIMES, every_time(say), TimePoint)


def by_length(times: Sequence[TimePoint]) -> Times:
    """Return times by what they are of."""
    return {(each.operator, each.length, each.way): each for each in times}


def copies_ms(host: TimePoint) -> float:
    """Return how long the accelerator's bus takes for what the host reads and writes."""
    config = machine()
    return host.moved_bytes / config.bus_bytes / config.clock_mhz / 1e3


def error_answers(errors: Sequence[ErrorPoint]) -> Answers:
    """Return the dB that int8 rows cost the host, and a chain over that; at the worst length."""
    ratios = {(each.operator, each.spread, each.length, each.way): each for each in errors}
    found: dict[str, float] = {}
    for (operator, spread, length, way), point in ratios.items():
        if way == HOST:
            continue
        better = HOST if way == HOST_FROM_INT8 else HOST_FROM_INT8
        lost = ratios[operator, spread, length, better].sqnr_db - point.sqnr_db
        name = f"dB lost, {operator}, spread {spread}, {way}"
        found[name] = max(lost, found.get(name, lost))
    return found


def time_answers(times: Sequence[TimePoint]) -> Answers:
    """Return a chain's time over the host's with copies, and when they would be alike."""
    known = by_length(times)
    found: dict[str, float] = {}
    for (operator, length, way), point in known.items():
        if way not in CHAINS:
            continue
        host = known[operator, length, HOST]
        copied = copies_ms(host)
        over = point.time_ms / (host.time_ms + copied)
        found[f"time over host and copies, {operator} of {length}, {way}"] = over
        if length == BERT[operator]:
            slower = (point.time_ms - copied) / host.time_ms
            found[f"slower host that is as fast, {operator} of {length}, {way}"] = slower
    return found


def answers() -> Answers:
    """Return what is lost in accuracy, and what is won or lost in time."""
    errors, times = read_points(ERRORS, ErrorPoint), read_points(TIMES, TimePoint)
    return {**error_answers(errors), **time_answers(times)}


def figure() -> Figure:
    """Return signal over error by spread, and time by length, of each operator."""
    errors, times = read_points(ERRORS, ErrorPoint), read_points(TIMES, TimePoint)
    drawn = Figure(figsize=(10, 6.4), layout="constrained")
    for (left, right), operator in zip(drawn.subplots(2, 2), BERT, strict=True):
        own = [each for each in errors if each.operator == operator]
        _errors(left, [each for each in own if each.length == BERT[operator]])
        left.set_title(f"{operator} of {BERT[operator]}")
        _times(right, [each for each in times if each.operator == operator])
        right.set_title(operator)
    return drawn


def _errors(axes: Axes, errors: Sequence[ErrorPoint]) -> None:
    for way in dict.fromkeys(each.way for each in errors):
        own = [each for each in errors if each.way == way]
        axes.plot(
            [str(each.spread) for each in own], [each.sqnr_db for each in own], "o-", label=way
        )
    axes.set_xlabel("spread")
    axes.set_ylabel("signal over error, dB")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)


def _times(axes: Axes, times: Sequence[TimePoint]) -> None:
    for way in dict.fromkeys(each.way for each in times):
        own = [each for each in times if each.way == way]
        copied = [copies_ms(each) if way == HOST else 0.0 for each in own]
        spent = [each.time_ms + more for each, more in zip(own, copied, strict=True)]
        label = f"{way} and copies" if way == HOST else way
        axes.plot([each.length for each in own], spent, "o-", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("length of a row")
    axes.set_ylabel("ms of a layer of BERT-base's form")
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(fontsize=8)


QUESTION: Final = OwnQuestion(
    name="host_operators",
    asks="Why are softmax and layer normalization the host's?",
    folder=FOLDER,
    measure=measure,
    answers=answers,
    figure=figure,
)
