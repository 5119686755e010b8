"""Programs that grow instruction by instruction, with the tokens that keep them free of races."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.footprint import (
    SegmentBytes,
    Tiles,
    dram_footprint,
    footprint,
    padded_tiles,
)
from codesign.accel.isa import NEIGHBOURS, Gemm, Instruction, Load, Sync, Unit, Vector

PENDING_MAX = 6
"""Tokens given ahead of need that wait in one direction of one pair."""


@dataclass(slots=True)
class Issued:
    """An instruction in the program: its number in its unit's queue, and what it knows.

    `known[u]` is the number of instructions of unit u that are surely complete when it starts.
    """

    instruction: Instruction
    number: int
    known: dict[Unit, int]
    tiles: tuple[Tiles, ...]
    dram: SegmentBytes | None


class OrderedWriter:
    """Appends instructions and the tokens that keep them in order."""

    def __init__(self, rng: np.random.Generator, config: AccelConfig) -> None:
        self.rng = rng
        self.config = config
        self.issued: list[Issued] = []
        self.queues: dict[Unit, list[Issued]] = {unit: [] for unit in Unit}
        self.known: dict[Unit, dict[Unit, int]] = {u: dict.fromkeys(Unit, 0) for u in Unit}
        self.pending: dict[tuple[Unit, Unit], deque[int]] = {
            (giver, taker): deque() for giver in Unit for taker in NEIGHBOURS[giver]
        }
        self.valid = {memory: np.zeros(config.depth(memory), np.bool_) for memory in Memory}

    # --- tokens ---------------------------------------------------------------------------------

    def issue(self, instruction: Instruction) -> None:
        """Append an instruction behind all that it depends on."""
        unit = instruction.unit
        tiles, dram = footprint(instruction), dram_footprint(instruction, self.config)
        wanted = self._conflicts(unit, tiles, dram)
        if wanted.pop(unit, None) is not None:
            self._append(Sync(unit=unit))
        wait = self._take(unit, wanted)
        push = self._give(unit)
        self._append(replace(instruction, wait=wait, push=push), tiles, dram)
        for each in tiles:
            if each.written:
                self._mark(instruction, each.memory)

    def _conflicts(
        self, unit: Unit, tiles: Sequence[Tiles], dram: SegmentBytes | None
    ) -> dict[Unit, int]:
        """Return, per unit, the number of its last instruction that must be complete."""
        wanted: dict[Unit, int] = {}
        for earlier in self.issued:
            other = earlier.instruction.unit
            if earlier.number < self.known[unit][other] or (other is unit is not Unit.LOAD):
                continue
            clash = any(_overlap(a, b) for a in earlier.tiles for b in tiles)
            if clash or _dram_overlap(earlier.dram, dram):
                wanted[other] = earlier.number
        return wanted

    def _take(self, unit: Unit, wanted: dict[Unit, int]) -> frozenset[Unit]:
        """Take tokens until the wanted instructions are complete, and some without need.

        Return the units whose last token the next instruction itself takes.
        """
        waits = set()
        for giver in NEIGHBOURS[unit]:
            if giver not in wanted and self.pending[giver, unit] and self._chance(4):
                waits.add(giver)
                self._learn(unit, giver, 0)
        for giver, number in sorted(wanted.items()):
            while self.known[unit][giver] <= number:
                if giver in waits:
                    self._append(Sync(unit=unit, wait=frozenset({giver})))
                waits.add(giver)
                self._learn(unit, giver, number)
        return frozenset(waits)

    def _learn(self, unit: Unit, giver: Unit, number: int) -> None:
        queue = self.pending[giver, unit]
        if not queue:
            latest = len(self.queues[giver]) - 1
            chosen = int(self.rng.choice([number, latest]))
            source = self.queues[giver][chosen]
            source.instruction = replace(source.instruction, push=source.instruction.push | {unit})
            queue.append(chosen)
        chosen = queue.popleft()
        self.known[unit][giver] = max(self.known[unit][giver], chosen + 1)
        for other, count in self.queues[giver][chosen].known.items():
            self.known[unit][other] = max(self.known[unit][other], count)

    def _give(self, unit: Unit) -> frozenset[Unit]:
        """Return units that get a token ahead of need."""
        takers = [
            taker
            for taker in NEIGHBOURS[unit]
            if self.rng.integers(6) == 0 and len(self.pending[unit, taker]) < PENDING_MAX
        ]
        for taker in takers:
            self.pending[unit, taker].append(len(self.queues[unit]))
        return frozenset(takers)

    def _append(
        self,
        instruction: Instruction,
        tiles: tuple[Tiles, ...] = (),
        dram: SegmentBytes | None = None,
    ) -> None:
        unit = instruction.unit
        queue = self.queues[unit]
        if isinstance(instruction, Sync):
            self.known[unit][unit] = len(queue)
        known = dict(self.known[unit])
        queue.append(Issued(instruction, len(queue), known, tiles, dram))
        self.issued.append(queue[-1])

    def finish(self) -> None:
        """Take every token that still waits."""
        for (giver, taker), queue in self.pending.items():
            for _ in range(len(queue)):
                queue.popleft()
                self._append(Sync(unit=taker, wait=frozenset({giver})))

    def _mark(self, instruction: Instruction, memory: Memory) -> None:
        match instruction:
            case Load():
                first = instruction.sram
                self.valid[memory][first : first + padded_tiles(instruction)] = True
            case Gemm():
                places = places_of(instruction.acc, instruction.extents, instruction.acc_strides)
                self.valid[memory][places] = True
            case Vector():
                places = places_of(instruction.dst, instruction.extents, instruction.dst_strides)
                self.valid[memory][places] = True

    def _chance(self, one_in: int) -> bool:
        return bool(self.rng.integers(one_in) == 0)


def places_of(base: int, extents: Sequence[int], strides: Sequence[int]) -> NDArray[np.int64]:
    places: NDArray[np.int64] = np.array([base], np.int64)
    for extent, stride in zip(extents, strides, strict=True):
        places = (places[:, None] + np.arange(extent) * stride).ravel()
    return places


def _overlap(a: Tiles, b: Tiles) -> bool:
    touching = a.memory is b.memory and a.first < b.end and b.first < a.end
    return touching and (a.written or b.written)


def _dram_overlap(a: SegmentBytes | None, b: SegmentBytes | None) -> bool:
    if a is None or b is None or a.segment != b.segment:
        return False
    return a.first < b.end and b.first < a.end and (a.written or b.written)
