"""What a sweep measures, read from TOML.

networks = ["digits", "resnet18"]     names or ONNX files
targets = ["accel", "cpu"]            accel: exact cycles; cpu, gpu: measured time, once per network
preset = "base"                       the knobs that are not swept; or a list of presets
samples = [1, 16]                     samples in one run, 1 where left out; or "rows": as many as
                                      a tile has rows
tiling = "search"                     search: programs are timed; estimate: ten times as fast
                                      to compile, some percent slower to run

[grid]                                every combination of these
block_in = [8, 16]
bus_bits = [64, 128]
[grid.dram]
latency_cycles = [1, 60]

[search]                              or: choose among them, by Optuna
trials = 100
seed = 0
objectives = ["time_ms", "lut_count", "energy_uj"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

from codesign.accel.config import AccelConfig, DramTiming
from codesign.accel.presets import preset
from codesign.diagnostics import CodesignError, Problem
from experiments.sweep.row import OBJECTIVES

Knob: TypeAlias = tuple[str, str]
"""A group, `accel` or `dram`, and the knob's name."""

TARGETS: Final = ("accel", "cpu", "gpu")
MEASURED: Final = ("cpu", "gpu")
"""Targets without a configuration."""

TILINGS: Final = ("search", "estimate")
_KNOBS: Final[Mapping[Knob, type]] = MappingProxyType(
    {
        ("accel", each.name): type(each.default)
        for each in fields(AccelConfig)
        if each.name != "dram"
    }
    | {("dram", each.name): int for each in fields(DramTiming)}
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How many points are tried, from which seed, and what should become small."""

    trials: int
    seed: int = 0
    objectives: tuple[str, ...] = ("time_ms", "lut_count")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A sweep; `grid` gives each swept knob's values, each of `bases` all others.

    Each point runs each of `samples` at once; where it is None, as many as a tile has rows.
    """

    networks: tuple[str, ...]
    targets: tuple[str, ...] = ("accel",)
    bases: tuple[AccelConfig, ...] = (AccelConfig(),)
    samples: tuple[int, ...] | None = (1,)
    tiling: str = "search"
    grid: Mapping[Knob, tuple[int, ...]] = field(default_factory=dict)
    search: Search | None = None

    @property
    def size(self) -> int:
        """Number of points, without those that a search leaves out."""
        configurations = len(self.bases) * prod(len(values) for values in self.grid.values())
        each = configurations * ("accel" in self.targets)
        each += sum(target in self.targets for target in MEASURED)
        return len(self.networks) * len(self.samples or (0,)) * each

    def samples_of(self, config: AccelConfig) -> tuple[int, ...]:
        """Return how many samples are run at once on a configuration, one after the other."""
        return (config.batch,) if self.samples is None else self.samples

    def configurations(self) -> Iterator[AccelConfig]:
        """Yield every combination, the last knob fastest; not all need to be legal."""
        for base in self.bases:
            for values in product(*self.grid.values()):
                yield self.configured(dict(zip(self.grid, values, strict=True)), base)

    def configured(self, chosen: Mapping[Knob, int], base: AccelConfig) -> AccelConfig:
        """Return a base with some knobs set; the configuration need not be legal."""
        accel: dict[str, Any] = {
            name: value for (group, name), value in chosen.items() if group == "accel"
        }
        dram = {name: value for (group, name), value in chosen.items() if group == "dram"}
        config: AccelConfig = replace(base, **accel)
        return config.with_dram(**dram)


def read_plan(path: Path) -> Plan:
    """Return the plan of a file; raise CodesignError with every mistake in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CodesignError.of(f"cannot read {str(path)!r}", found=str(error)) from None
    return parse_plan(text, source=str(path))


def parse_plan(text: str, *, source: str = "the plan") -> Plan:
    """Return the plan that TOML text states; raise CodesignError with every mistake in it."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CodesignError.of(f"{source} is not TOML", found=str(error)) from None
    problems = list(_mistakes(table, source))
    if problems:
        raise CodesignError(*problems)
    search = table.get("search")
    grid = dict(table.get("grid", {}))
    dram = grid.pop("dram", {})
    return Plan(
        networks=tuple(table["networks"]),
        targets=tuple(table.get("targets", ("accel",))),
        bases=tuple(preset(each) for each in _listed(table.get("preset", "base"))),
        samples=None if table.get("samples") == "rows" else tuple(table.get("samples", (1,))),
        tiling=table.get("tiling", "search"),
        grid=MappingProxyType(
            {("accel", name): tuple(values) for name, values in grid.items()}
            | {("dram", name): tuple(values) for name, values in dram.items()}
        ),
        search=None
        if search is None
        else Search(
            trials=search["trials"],
            seed=search.get("seed", 0),
            objectives=tuple(search.get("objectives", ("time_ms", "lut_count"))),
        ),
    )


def _mistakes(table: Mapping[str, Any], source: str) -> Iterator[Problem]:
    known = ("networks", "targets", "preset", "samples", "tiling", "grid", "search")
    yield from _unknown(table, known, source)
    networks = table.get("networks")
    if not _is_texts(networks):
        yield Problem(
            what=f"{source}: networks must be a list of names and files",
            found=f"found {networks!r}",
            help='networks = ["resnet18"]',
        )
    targets = table.get("targets", ["accel"])
    if not _is_texts(targets) or any(each not in TARGETS for each in targets):
        yield Problem(
            what=f"{source}: targets must be a list of {' and '.join(TARGETS)}",
            found=f"found {targets!r}",
        )
    yield from _choice_mistakes(table, source)
    grid = table.get("grid", {})
    if not isinstance(grid, dict):
        yield Problem(what=f"{source}: grid must be a table", found=f"found {grid!r}")
        return
    yield from _grid_mistakes("accel", {k: v for k, v in grid.items() if k != "dram"}, source)
    yield from _grid_mistakes("dram", grid.get("dram", {}), f"{source}: dram")
    if "search" in table:
        yield from _search_mistakes(table["search"], source)


def _choice_mistakes(table: Mapping[str, Any], source: str) -> Iterator[Problem]:
    presets = _listed(table.get("preset", "base"))
    if not _is_texts(presets):
        yield Problem(what=f"{source}: preset must be a name or names", found=f"found {presets!r}")
    samples = table.get("samples", [1])
    if samples == "rows":
        pass
    elif not isinstance(samples, list) or not samples or any(type(n) is not int for n in samples):
        yield Problem(
            what=f'{source}: samples must be a list of int or "rows"', found=f"found {samples!r}"
        )
    elif min(samples) < 1 or len(set(samples)) < len(samples):
        yield Problem(
            what=f"{source}: samples must be positive and differ", found=f"found {samples!r}"
        )
    tiling = table.get("tiling", "search")
    if tiling not in TILINGS:
        yield Problem(
            what=f"{source}: tiling must be {' or '.join(TILINGS)}", found=f"found {tiling!r}"
        )


def _grid_mistakes(group: str, grid: Any, source: str) -> Iterator[Problem]:
    if not isinstance(grid, dict):
        yield Problem(what=f"{source}: {group} must be a table", found=f"found {grid!r}")
        return
    names = tuple(name for kind, name in _KNOBS if kind == group)
    yield from _unknown(grid, names, f"{source}: grid")
    for name, values in grid.items():
        expected = _KNOBS.get((group, name))
        if expected is None:
            continue
        if (
            not isinstance(values, list)
            or not values
            or any(type(v) is not expected for v in values)
        ):
            yield Problem(
                what=f"{source}: grid: {name} must be a list of {expected.__name__}",
                found=f"found {values!r}",
            )
        elif len(set(values)) != len(values):
            yield Problem(
                what=f"{source}: grid: {name} has a value twice", found=f"found {values!r}"
            )


def _search_mistakes(search: Any, source: str) -> Iterator[Problem]:
    if not isinstance(search, dict):
        yield Problem(what=f"{source}: search must be a table", found=f"found {search!r}")
        return
    yield from _unknown(search, ("trials", "seed", "objectives"), f"{source}: search")
    for name in ("trials", "seed"):
        value = search.get(name, 0)
        if type(value) is not int or value < (name == "trials"):
            yield Problem(
                what=f"{source}: search: {name} must be a positive number",
                found=f"found {search.get(name)!r}",
            )
    objectives = search.get("objectives", ["time_ms", "lut_count"])
    if not _is_texts(objectives) or any(each not in OBJECTIVES for each in objectives):
        yield Problem(
            what=f"{source}: search: objectives must be a list of columns to minimize",
            found=f"found {objectives!r}, the columns are {', '.join(OBJECTIVES)}",
        )


def _unknown(table: Mapping[str, Any], known: tuple[str, ...], source: str) -> Iterator[Problem]:
    for name in table:
        if name not in known:
            close = get_close_matches(name, known)
            yield Problem(
                what=f"{source} has no {name!r}",
                found=f"known are {', '.join(known)}",
                help=f"there is {close[0]}" if close else None,
            )


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
