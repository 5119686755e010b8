"""Which configurations can be built: every rule, over plain knobs, so that `config` can read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from codesign.diagnostics import Problem

Knobs: TypeAlias = Mapping[str, int]

PAGE_BYTES: Final = 4096
"""No AXI burst crosses a multiple of this address (AMBA AXI, A3.4.1)."""

LUT_ENTRIES: Final = 256
"""Entries of one lookup table."""

POWERS: Final[Mapping[str, tuple[int, int]]] = {
    "batch": (1, 32),
    "block_in": (1, 64),
    "block_out": (1, 64),
    "inp_bits": (4, 16),
    "wgt_bits": (2, 8),
    "acc_bits": (16, 32),
    "inp_depth": (2, 1 << 16),
    "wgt_depth": (2, 1 << 16),
    "vec_depth": (2, 1 << 16),
    "acc_depth": (2, 1 << 16),
    "out_depth": (2, 1 << 16),
    "param_depth": (2, 1 << 16),
    "lut_depth": (2, 1 << 16),
    "acc_banks": (1, 4),
    "vector_lanes": (1, 2048),
    "bus_bits": (32, 512),
    "burst_beats": (1, 256),
    "outstanding": (1, 32),
    "queue_depth": (2, 64),
}
"""Knobs that are powers of two, with their least and greatest value."""

RANGES: Final[Mapping[str, tuple[int, int]]] = {"address_bits": (32, 40), "clock_mhz": (1, 5000)}
"""Knobs that are any integer of a range."""

DRAM_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "latency_cycles": (0, 1 << 16),
    "miss_cycles": (0, 1 << 16),
}
DRAM_POWERS: Final[Mapping[str, tuple[int, int]]] = {
    "bytes_per_cycle": (1, 1 << 16),
    "banks": (1, 64),
    "row_bytes": (PAGE_BYTES, 1 << 20),
}
DRAM_OPTIONAL: Final = frozenset({"bytes_per_cycle", "banks"})
"""Members of the memory's timing where 0 switches the rule off."""


def broken_rules(knobs: Knobs, dram: Knobs) -> tuple[Problem, ...]:
    """Return every broken rule: the knob, its value, its limits and the nearest legal value.

    Rules that relate knobs are tried only where each of these knobs is legal alone.
    """
    single = [
        *_single(knobs, POWERS, RANGES, ""),
        *_single(dram, DRAM_POWERS, DRAM_RANGES, "dram."),
    ]
    broken = {name for name, _ in single}
    related = [
        problem
        for names, rule in _RELATIONS
        if not broken.intersection(names)
        for problem in rule(knobs)
    ]
    return tuple([problem for _, problem in single] + related)


def _single(
    knobs: Knobs,
    powers: Mapping[str, tuple[int, int]],
    ranges: Mapping[str, tuple[int, int]],
    prefix: str,
) -> Iterator[tuple[str, Problem]]:
    for name, value in knobs.items():
        if name in powers:
            problem = _power(prefix + name, value, *powers[name], name in DRAM_OPTIONAL)
        elif name in ranges:
            problem = _range(prefix + name, value, *ranges[name])
        else:
            problem = _flag(prefix + name, value)
        if problem is not None:
            yield name, problem


def _broken(name: str, value: object, legal: str, nearest: object) -> Problem:
    return Problem(
        what=f"{name} must be {legal}, not {value!r}",
        help=f"the nearest legal value is {name} = {nearest}",
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _power(name: str, value: int, low: int, high: int, zero_allowed: bool) -> Problem | None:
    legal = f"a power of two from {low} to {high}" + (", or 0" if zero_allowed else "")
    if not _is_integer(value):
        return _broken(name, value, legal, low)
    if zero_allowed and value == 0:
        return None
    if low <= value <= high and value & (value - 1) == 0:
        return None
    return _broken(name, value, legal, nearest_power(value, low, high))


def _range(name: str, value: int, low: int, high: int) -> Problem | None:
    if _is_integer(value) and low <= value <= high:
        return None
    nearest = min(max(value, low), high) if _is_integer(value) else low
    return _broken(name, value, f"an integer from {low} to {high}", nearest)


def _flag(name: str, value: object) -> Problem | None:
    return None if isinstance(value, bool) else _broken(name, value, "true or false", "true")


def nearest_power(value: int, low: int, high: int) -> int:
    """Return the power of two in low .. high that is nearest to the value; a tie goes down.

    Examples
    --------
    >>> nearest_power(12, 1, 32), nearest_power(13, 1, 32), nearest_power(-3, 2, 8)
    (8, 16, 2)
    """
    if value <= low:
        return low
    if value >= high:
        return high
    below = 1 << (value.bit_length() - 1)
    return below if value - below <= 2 * below - value else 2 * below


def _banks(knobs: Knobs) -> Iterator[Problem]:
    depth, banks = knobs["acc_depth"], knobs["acc_banks"]
    if depth < banks:
        yield _broken("acc_depth", depth, f"at least one tile for each of {banks} banks", banks)


def _lanes(knobs: Knobs) -> Iterator[Problem]:
    lanes, elements = knobs["vector_lanes"], knobs["batch"] * knobs["block_out"]
    if elements % lanes:
        legal = f"a divisor of batch * block_out = {elements}"
        yield _broken("vector_lanes", lanes, legal, elements)


def _table(knobs: Knobs) -> Iterator[Problem]:
    depth = knobs["lut_depth"]
    if knobs["has_lut"] and depth < LUT_ENTRIES:
        yield _broken(
            "lut_depth", depth, f"at least {LUT_ENTRIES} where has_lut is true", LUT_ENTRIES
        )


def _burst(knobs: Knobs) -> Iterator[Problem]:
    beats, bus_bytes = knobs["burst_beats"], knobs["bus_bits"] // 8
    limit = PAGE_BYTES // bus_bytes
    if beats > limit:
        legal = f"at most {limit} (beats of {bus_bytes} bytes in a page of {PAGE_BYTES})"
        yield _broken("burst_beats", beats, legal, limit)


_RELATIONS: Final[tuple[tuple[tuple[str, ...], Callable[[Knobs], Iterator[Problem]]], ...]] = (
    (("acc_depth", "acc_banks"), _banks),
    (("vector_lanes", "batch", "block_out"), _lanes),
    (("lut_depth", "has_lut"), _table),
    (("burst_beats", "bus_bits"), _burst),
)
