"""An instruction before it has tokens, with what it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

from codesign.accel.config import Memory
from codesign.accel.isa import Gemm, Load, Store, Vector

Work: TypeAlias = Load | Gemm | Vector | Store


@final
@dataclass(frozen=True, slots=True)
class Region:
    """A box of tiles in a scratchpad (one axis) or in a tensor in DRAM (n, c, h, w)."""

    space: Memory | str
    ranges: tuple[tuple[int, int], ...]

    def overlaps(self, other: Region) -> bool:
        """Whether two regions of one space share a tile."""
        # A loop: compilation asks this a million times, and a generator costs as much again.
        for (a, b), (other_a, other_b) in zip(self.ranges, other.ranges, strict=True):
            if a >= other_b or other_a >= b:
                return False
        return True

    def covers(self, other: Region) -> bool:
        """Whether all tiles of another region of one space lie in this one."""
        return all(
            a <= other_a and other_b <= b
            for (a, b), (other_a, other_b) in zip(self.ranges, other.ranges, strict=True)
        )


@final
@dataclass(frozen=True, slots=True)
class Node:
    """One instruction of a unit; the synchronizer gives it tokens."""

    instruction: Work
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]


def tiles_at(memory: Memory, base: int, count: int) -> Region:
    """Return the region of consecutive tiles of a scratchpad."""
    return Region(memory, ((base, base + count),))
