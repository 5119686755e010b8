"""A sweep as one HTML file that needs no other, and its figures as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, final

from jinja2 import Environment, StrictUndefined

from codesign.accel.config import AccelConfig
from experiments.sweep.figures import (
    layers_figure,
    pareto_figure,
    roofline_figure,
    save_figure,
    svg,
)
from experiments.sweep.pareto import front
from experiments.sweep.plan import Knob, Plan
from experiments.sweep.row import Row
from experiments.sweep.store import Store

COLUMNS: Final = ("time_ms", "lut_count", "energy_uj")
"""What the front is about where no search names objectives."""

_SHOWN: Final = (
    "time_ms",
    "cycles",
    "busiest_percent",
    "utilization_percent",
    "lut_count",
    "dsp_count",
    "block_ram_18kbit_count",
    "energy_uj",
    "bound",
)
_LISTED: Final = 40


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    title: str
    svg: str


def write_report(plan: Plan, store: Store, folder: Path) -> Path:
    """Write `report.html` and `figures/` and return the report's path."""
    rows = store.rows()
    columns = COLUMNS if plan.search is None else plan.search.objectives
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    text = _template().render(
        networks=plan.networks,
        done=sum(row.status == "done" for row in rows),
        refused=sum(row.status == "refused" for row in rows),
        columns=columns,
        shown=_SHOWN,
        sections=[_section(name, rows, plan, store, columns, figures) for name in plan.networks],
        reasons=Counter(row.reason for row in rows if row.status == "refused").most_common(),
    )
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


def _template() -> Any:
    source = resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined).from_string(source)


def _section(
    name: str,
    rows: Sequence[Row],
    plan: Plan,
    store: Store,
    columns: tuple[str, ...],
    figures: Path,
) -> Mapping[str, Any]:
    ours = [row for row in rows if row.network == name and row.status == "done"]
    accel = [row for row in ours if row.target == "accel"]
    best = sorted(front(accel, columns), key=lambda row: (row.time_ms or 0, row.point))
    cpu = next((row.time_ms for row in ours if row.target == "cpu"), None)
    return {
        "name": name,
        "cpu_ms": cpu,
        "best": [
            {"label": label(row, plan), "cells": [_text(getattr(row, each)) for each in _SHOWN]}
            for row in best[:_LISTED]
        ],
        "figures": _figures(name, accel, best, plan, store, figures) if best else [],
    }


def _figures(
    name: str, rows: Sequence[Row], best: Sequence[Row], plan: Plan, store: Store, folder: Path
) -> list[_Figure]:
    fastest = best[0]
    layers = store.layers(fastest.point)
    config = AccelConfig.from_toml(fastest.configuration)
    title = f"{name} at {label(fastest, plan)}"
    stem = "".join(each if each.isalnum() else "-" for each in name)
    drawn = {
        f"{stem}-time-area": (
            "Time against area",
            pareto_figure(rows, "lut_count", "time_ms"),
        ),
        f"{stem}-time-energy": (
            "Time against energy",
            pareto_figure(rows, "energy_uj", "time_ms"),
        ),
        f"{stem}-roofline": (
            f"Roofline of the fastest: {title}",
            roofline_figure(layers, config, title),
        ),
        f"{stem}-layers": (f"Layers of the fastest: {title}", layers_figure(layers)),
    }
    for file, (_, figure) in drawn.items():
        save_figure(figure, folder / file)
    return [_Figure(title=text, svg=_inline(svg(figure))) for text, figure in drawn.values()]


def _inline(text: str) -> str:
    """Return SVG without what may stand only at the beginning of a file."""
    return text[text.index("<svg") :]


def label(row: Row, plan: Plan) -> str:
    """Return what is swept of a row; the shape of its array where no knob is."""
    config = AccelConfig.from_toml(row.configuration)
    swept = [f"{name} {_knob(config, (group, name))}" for group, name in plan.grid]
    if len(plan.bases) > 1 or not swept:
        swept.insert(0, f"{config.batch}x{config.block_in}x{config.block_out}")
    if plan.samples is None or len(plan.samples) > 1:
        swept.append(f"samples {row.samples}")
    return ", ".join(swept)


def _knob(config: AccelConfig, knob: Knob) -> int:
    group, name = knob
    value: int = getattr(config.dram if group == "dram" else config, name)
    return value


def _text(value: float | str | None) -> str:
    match value:
        case float():
            return f"{value:,.3f}" if value < 100 else f"{value:,.0f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)
