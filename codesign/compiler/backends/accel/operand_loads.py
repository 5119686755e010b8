"""How often and how long the two operands of the array are loaded, under many tilings at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.dtypes import Array


@final
@dataclass(frozen=True, slots=True)
class Operand:
    """One of the two operands of the array under every candidate.

    `groups` along the operand's own axes, `ragged` the same with the last one's true share; tiles
    of a step, cycles of its load, depth of its memory.
    """

    groups: Array
    ragged: Array
    size: Array
    cycles: Array
    depth: int


def loads(
    outer: Operand, inner: Operand, parts: Array, ragged_parts: Array, step: Array
) -> tuple[Array, Array, Array, Array]:
    """Return cycles of all loads, cycles that the array waits, cycles of the first turn, loads.

    `outer` stays while `inner` passes by: all parts of its group, if they fit; the next group's
    come meanwhile, but loads run ahead of the array only by what fits the inner's memory, and not
    at all where two groups do not fit side by side. What of `inner` fits as a whole is loaded in
    the first turn alone.
    """
    kept = parts * outer.size <= outer.depth
    resident = inner.groups * parts * inner.size <= inner.depth
    outer_once = outer.cycles * ragged_parts * np.where(kept, 1.0, inner.groups)
    inner_once = inner.cycles * ragged_parts * inner.ragged
    turns = np.where(resident, 1.0, outer.ragged)
    load = outer.ragged * outer_once + turns * inner_once
    ahead = np.minimum(inner.depth // inner.size, inner.groups * parts) * step
    beside = 2 * parts * outer.size <= outer.depth
    alone = np.maximum(outer.cycles - step * (parts > 1), 0) * parts
    late = np.where(beside, np.maximum(parts * outer.cycles - ahead, 0), alone)
    streamed = (2 * outer.size > outer.depth) * outer.cycles * parts * inner.groups
    wait = np.where(kept, (outer.groups - 1) * late, outer.groups * streamed)
    serial = ~resident & (2 * inner.size > inner.depth)
    wait = wait + serial * outer.groups * inner.groups * parts * inner.cycles
    count = parts * (outer.groups * np.where(kept, 1, inner.groups) + inner.groups * turns)
    return load, wait, outer_once + inner_once, count
