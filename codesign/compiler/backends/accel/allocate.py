"""Scratchpad space: every memory is a ring, and what it still holds is found again.

Taking space only moves the ring's head; that an older tile is overwritten no earlier than its last
reader has finished is the synchronizer's business. Two tiles that fit together give double
buffering, one that does not gives serial execution: both come out right.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import final

from codesign.diagnostics import InternalError


@final
@dataclass(slots=True)
class Ring:
    """The tiles of one memory, or the first of them, handed out round and round."""

    depth: int
    head: int = 0
    slot: int = 1
    resident: dict[Hashable, tuple[int, int]] = field(default_factory=dict)

    def find(self, tag: Hashable) -> int | None:
        """Return where the tiles of a tag lie, if nothing has overwritten them."""
        found = self.resident.get(tag)
        return None if found is None else found[0]

    def take(self, tag: Hashable, tiles: int) -> int:
        """Return the first of consecutive tiles, from now on those of `tag`."""
        if tiles > self.depth:
            raise InternalError(f"{tiles} tiles in a memory of {self.depth}")
        room = max(tiles, self.slot)
        base = self.head if self.head + room <= self.depth else 0
        self.head = base + room
        self.resident = {
            other: (start, count)
            for other, (start, count) in self.resident.items()
            if start + count <= base or base + tiles <= start
        }
        self.resident[tag] = (base, tiles)
        return base

    def limit(self, depth: int) -> None:
        """Hand out the first `depth` tiles alone from now on; what lies beyond them stays."""
        self.depth = depth
        self.head = 0 if self.head >= depth else self.head

    def divide(self, slot: int, count: int = 1) -> None:
        """Hand out slots of equal size from now on, so that odd remainders never spoil a turn.

        Start again at the bottom where `count` slots would not fit before the end.
        """
        self.slot = slot
        self.head = -(-self.head // slot) * slot
        if self.head + count * slot > self.depth:
            self.head = 0


@final
@dataclass(slots=True)
class Banks:
    """The accumulator banks, taken in turn."""

    banks: int
    bank_depth: int
    next_bank: int = 0

    def take(self, tiles: int) -> int:
        """Return the first tile of the next bank."""
        if tiles > self.bank_depth:
            raise InternalError(f"{tiles} tiles in an accumulator bank of {self.bank_depth}")
        base = self.next_bank * self.bank_depth
        self.next_bank = (self.next_bank + 1) % self.banks
        return base
