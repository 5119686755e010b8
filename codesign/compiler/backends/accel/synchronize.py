"""Tokens from what instructions read and write.

Units start and finish their own instructions in program order, so that of another unit only the
latest conflicting instruction matters. For every unit a clock holds up to which instruction of each
other unit it is known to run after; a token is spent only where the clock does not say so already,
and waiting for an instruction brings all that this one knew (a transitive reduction by vector
clocks, as in happens-before race detection: Lamport 1978, Fidge 1988).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, final

from codesign.accel.config import Memory
from codesign.accel.isa import NEIGHBOURS, TOKEN_BITS, Instruction, Unit
from codesign.compiler.backends.accel.node import Node, Region
from codesign.diagnostics import InternalError

Clock: TypeAlias = dict[Unit, int]
Access: TypeAlias = tuple[int, Region]

_TOKENS_MAX = 2**TOKEN_BITS - 1
_TOKENS_LEFT = _TOKENS_MAX // 2
_ROUNDS = 4


def synchronize(nodes: Sequence[Node]) -> tuple[Instruction, ...]:
    """Return the nodes' instructions with tokens such that every conflict keeps program order.

    Two instructions conflict where they touch one tile and one of them writes it. Each instruction
    exchanges at most one token with each unit, and no pair ever holds more than 255: a unit that
    could run too far ahead waits for its partner, and where this comes too late in the program
    (a whole tensor is stored before its first reader) the reader waits for the whole tensor.
    """
    found = _attempt(nodes) or _attempt([_whole_tensors(node) for node in nodes])
    if found is None:
        raise InternalError("a pair of units may hold more tokens than its counter counts")
    return found.instructions(nodes)


def _attempt(nodes: Sequence[Node]) -> _Synchronizer | None:
    """Return a walk whose tokens fit their counters; None where brakes come too late."""
    brakes: dict[int, int] = {}
    for _ in range(_ROUNDS):
        attempt = _Synchronizer(brakes)
        attempt.run(nodes)
        late = attempt.brakes_missing()
        if late is None:
            return attempt
        if not late:
            return None
        brakes = {**brakes, **late}
    return None


@final
@dataclass(slots=True)
class _History:
    """Accesses of one unit to one space, in program order."""

    reads: list[Access] = field(default_factory=list)
    writes: list[Access] = field(default_factory=list)


@final
@dataclass(slots=True)
class _Synchronizer:
    """One walk over the program; `edges[a, b]` are the (giver, taker) indices of a pair.

    `brakes[i]` is an instruction that instruction i waits for without a conflict.
    """

    brakes: Mapping[int, int]
    clocks: dict[Unit, Clock] = field(default_factory=lambda: {u: _nothing() for u in Unit})
    known: list[Clock] = field(default_factory=list)
    history: dict[Memory | str, dict[Unit, _History]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_History))
    )
    edges: dict[tuple[Unit, Unit], list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def run(self, nodes: Sequence[Node]) -> None:
        for index, node in enumerate(nodes):
            unit = node.instruction.unit
            clock = self.clocks[unit]
            latest = self._conflicts(node, unit)
            if index in self.brakes:
                brake = self.brakes[index]
                other = nodes[brake].instruction.unit
                latest[other] = max(brake, latest.get(other, -1))
            for other, giver in sorted(latest.items(), key=lambda item: -item[1]):
                if clock[other] >= giver:
                    continue
                if other not in NEIGHBOURS[unit]:
                    raise InternalError(f"{unit.name} cannot wait for {other.name}")
                self.edges[other, unit].append((giver, index))
                _merge(clock, self.known[giver])
                clock[other] = max(clock[other], giver)
            self.known.append({**clock, unit: index})
            clock[unit] = index
            self._remember(index, node, unit)

    def _conflicts(self, node: Node, unit: Unit) -> Clock:
        """Return the latest conflicting instruction of each other unit, beyond what is known."""
        known = self.clocks[unit]
        latest: Clock = {}
        for regions, writes in ((node.reads, False), (node.writes, True)):
            for region in regions:
                for other, history in self.history[region.space].items():
                    if other is unit:
                        continue
                    floor = latest.get(other, known[other])
                    found = _last_overlap(history.writes, region, floor)
                    if writes:
                        found = _last_overlap(history.reads, region, found)
                    if found > floor:
                        latest[other] = found
        return latest

    def _remember(self, index: int, node: Node, unit: Unit) -> None:
        for region in node.reads:
            self.history[region.space][unit].reads.append((index, region))
        for region in node.writes:
            self.history[region.space][unit].writes.append((index, region))

    def brakes_missing(self) -> dict[int, int] | None:
        """Return what givers should wait for so that tokens fit; None where they fit already.

        When a giver starts, tokens are surely taken by the takers that it is known to run after.
        The result is empty where a taker that could brake comes too late in the program.
        """
        missing: dict[int, int] = {}
        fits = True
        for (_, taker_unit), pairs in self.edges.items():
            takers = [taker for _, taker in pairs]
            braked = 0
            for given, (giver, _) in enumerate(pairs, start=1):
                taken = max(braked, bisect_right(takers, self.known[giver][taker_unit]))
                if given - taken <= _TOKENS_MAX:
                    continue
                fits = False
                if takers[given - _TOKENS_LEFT - 1] < giver and giver not in missing:
                    missing[giver] = takers[given - _TOKENS_LEFT - 1]
                    braked = given - _TOKENS_LEFT
        return None if fits else missing

    def instructions(self, nodes: Sequence[Node]) -> tuple[Instruction, ...]:
        waits: dict[int, set[Unit]] = defaultdict(set)
        pushes: dict[int, set[Unit]] = defaultdict(set)
        for (giver_unit, taker_unit), pairs in self.edges.items():
            for giver, taker in pairs:
                pushes[giver].add(taker_unit)
                waits[taker].add(giver_unit)
        return tuple(
            replace(node.instruction, wait=frozenset(waits[i]), push=frozenset(pushes[i]))
            if i in waits or i in pushes
            else node.instruction
            for i, node in enumerate(nodes)
        )


def _last_overlap(accesses: list[Access], region: Region, floor: int) -> int:
    for index, other in reversed(accesses):
        if index <= floor:
            return floor
        if region.overlaps(other):
            return index
    return floor


def _nothing() -> Clock:
    return dict.fromkeys(Unit, -1)


def _merge(clock: Clock, other: Clock) -> None:
    for unit, index in other.items():
        clock[unit] = max(clock[unit], index)


def _whole_tensors(node: Node) -> Node:
    def widen(region: Region) -> Region:
        if isinstance(region.space, Memory):
            return region
        return Region(region.space, ((0, 1),) * len(region.ranges))

    return Node(
        node.instruction,
        tuple(widen(region) for region in node.reads),
        tuple(widen(region) for region in node.writes),
    )
