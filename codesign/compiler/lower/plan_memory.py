"""Where intermediate tensors lie in one workspace: places whose lives do not meet share bytes.

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
    place: Place
    first: int
    last: int
    size: int


def plan_memory(program: Launching, alignment: int, slack_bytes: int) -> MemoryPlan:
    """Return a plan in which every place is aligned and followed by `slack_bytes` of its own.

    The slack may be read, never written: a vector may reach over the end of a tensor.
    """
    lives: dict[Place, _Life] = {}
    for moment, launch in enumerate(program.launches):
        for place in launch.places:
            if place.home is not Home.WORKSPACE:
                continue
            size = -(-(place.size_bytes + slack_bytes) // alignment) * alignment
            life = lives.setdefault(place, _Life(place, moment, moment, size))
            life.last = moment
    placed: list[tuple[int, _Life]] = []
    for life in sorted(lives.values(), key=lambda each: (-each.size, each.first)):
        placed.append((_lowest(life, placed), life))
    size = max((offset + life.size for offset, life in placed), default=0)
    return MemoryPlan({life.place: offset for offset, life in placed}, size)


def _lowest(life: _Life, placed: list[tuple[int, _Life]]) -> int:
    busy = sorted(
        (offset, offset + other.size)
        for offset, other in placed
        if other.first <= life.last and life.first <= other.last
    )
    offset = 0
    for begin, end in busy:
        if offset + life.size <= begin:
            break
        offset = max(offset, end)
    return offset
