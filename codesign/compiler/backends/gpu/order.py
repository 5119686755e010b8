"""Which launches a launch must follow, and which may run beside it.

A launch follows those that write what it reads. Where tensors share bytes of the workspace it also
follows all that touch what it overwrites. Sets of launches are bits of whole numbers; launches
only follow ones with lower numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codesign.compiler.backends.gpu.program import GpuProgram
from codesign.compiler.lower.program import Place


def by_values(program: GpuProgram) -> list[int]:
    """Return for every launch those that write what it reads."""
    writers: dict[Place, int] = {}
    read: set[Place] = set()
    found: list[int] = []
    for number, launch in enumerate(program.launches):
        found.append(0)
        for place in launch.read:
            found[number] |= writers.get(place, 0)
        read.update(launch.read)
        for place in launch.written:
            assert place not in read, "a tensor is whole before it is read"
            writers[place] = writers.get(place, 0) | 1 << number
    return found


def by_bytes(program: GpuProgram, offsets: Mapping[Place, int]) -> list[int]:
    """Return for every launch those before it that touch another tensor where it writes."""
    users: dict[Place, int] = {}
    found: list[int] = []
    for number, launch in enumerate(program.launches):
        found.append(0)
        for place in launch.written:
            for other, earlier in users.items():
                if other is not place and _meet(place, other, offsets):
                    found[number] |= earlier
        for place in launch.places:
            if place in offsets:
                users[place] = users.get(place, 0) | 1 << number
    return found


def _meet(place: Place, other: Place, offsets: Mapping[Place, int]) -> bool:
    if place not in offsets:
        return False
    first, second = offsets[place], offsets[other]
    return first < second + other.size_bytes and second < first + place.size_bytes


def closed(followed: Sequence[int]) -> list[int]:
    """Return for every launch all that are done when it begins."""
    done: list[int] = []
    for direct in followed:
        done.append(direct)
        for earlier in _numbers(direct):
            done[-1] |= done[earlier]
    return done


def reduced(followed: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the least that each launch must follow, by numbers, for the same to be done before."""
    done = closed(followed)
    least: list[tuple[int, ...]] = []
    for direct in followed:
        kept: list[int] = []
        implied = 0
        for earlier in reversed(_numbers(direct)):
            if not implied >> earlier & 1:
                kept.append(earlier)
            implied |= done[earlier]
        least.append(tuple(reversed(kept)))
    return least


def _numbers(launches: int) -> list[int]:
    return [number for number in range(launches.bit_length()) if launches >> number & 1]
