"""Where intermediate tensors lie in one workspace: places whose lives do not meet share bytes.

Two lives do not meet where every launch that touches the one is done before any that touches the
other begins. Sets of launches are bits of whole numbers.

Source: greedy by size for offset calculation; Pisarchyk and Lee, Efficient Memory Management for
Deep Neural Net Inference (2020), section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from codesign.compiler.lower.program import Home, Place


class Touching(Protocol):
    """A launch, as far as memory goes."""

    @property
    def places(self) -> tuple[Place, ...]:
        """The memory of its operands."""


class Launching(Protocol):
    """Launches in order, of any backend."""

    @property
    def launches(self) -> Sequence[Touching]:
        """The launches."""


@final
@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offset in bytes of every workspace place, and the workspace's size."""

    offsets: Mapping[Place, int]
    size_bytes: int


@final
@dataclass(slots=True)
class _Life:
    """A place, its size, the launches that touch it, and those that are done before all of them."""

    place: Place
    size: int
    users: int
    earlier: int

    def is_over_before(self, other: _Life) -> bool:
        return not self.users & ~other.earlier


def plan_memory(
    program: Launching, alignment: int, slack_bytes: int, order: Sequence[int] | None = None
) -> MemoryPlan:
    """Return a plan in which every place is aligned and followed by `slack_bytes` of its own.

    The slack may be read, never written: a vector may reach over the end of a tensor. `order` has
    for every launch those that are done when it begins; without it, all before it.
    """
    if order is None:
        order = [(1 << moment) - 1 for moment in range(len(program.launches))]
    lives: dict[Place, _Life] = {}
    for moment, (launch, earlier) in enumerate(zip(program.launches, order, strict=True)):
        for place in launch.places:
            if place.home is not Home.WORKSPACE:
                continue
            size = -(-(place.size_bytes + slack_bytes) // alignment) * alignment
            life = lives.setdefault(place, _Life(place, size, 0, earlier))
            life.users |= 1 << moment
            life.earlier &= earlier
    placed: list[tuple[int, _Life]] = []
    for life in sorted(lives.values(), key=lambda each: -each.size):
        placed.append((_lowest(life, placed), life))
    size = max((offset + life.size for offset, life in placed), default=0)
    return MemoryPlan({life.place: offset for offset, life in placed}, size)


def _lowest(life: _Life, placed: list[tuple[int, _Life]]) -> int:
    busy = sorted(
        (offset, offset + other.size)
        for offset, other in placed
        if not life.is_over_before(other) and not other.is_over_before(life)
    )
    offset = 0
    for begin, end in busy:
        if offset + life.size <= begin:
            break
        offset = max(offset, end)
    return offset
