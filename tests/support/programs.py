"""Random legal programs: every field, unit, memory and kind of token.

Programs are free of races: whatever the timing, an instruction sees what program order says. They
read no tile that they have not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from codesign.accel import legality
from codesign.accel.arithmetic import pack_parameters
from codesign.accel.config import GEMM_LOOPS, VECTOR_LOOPS, AccelConfig, Memory
from codesign.accel.footprint import footprint, padded_tiles, reach
from codesign.accel.isa import (
    Destination,
    Gemm,
    Load,
    Reduce,
    Store,
    Vector,
    VectorOp,
    XSource,
    YSource,
)
from codesign.accel.program import Program, check_program
from codesign.accel.rules import LUT_ENTRIES
from tests.support.configurations import random_config
from tests.support.ordered_writer import OrderedWriter, places_of

__all__ = ["PARAM_SEGMENT", "random_config", "random_program", "segment_bytes"]

PARAM_SEGMENT = 0
SEGMENTS_BYTES = (4096, 8192, 4096, 6144)
"""Segment 0 holds legal param words and is never stored to; the others hold anything."""

ITERATIONS_MAX = 48


def segment_bytes(config: AccelConfig) -> tuple[int, ...]:
    """Return the sizes of the segments: each holds a lookup table and four tiles of any kind."""
    largest = max(LUT_ENTRIES * config.bus_bytes, 4 * config.dram_tile_bytes(Memory.WGT))
    scale = max(1, -(-largest // min(SEGMENTS_BYTES)))
    return tuple(scale * size for size in SEGMENTS_BYTES)


def random_program(
    rng: np.random.Generator, config: AccelConfig, length: int = 40
) -> tuple[Program, NDArray[np.uint8], tuple[int, ...]]:
    """Return a program that `check_program` accepts, initial DRAM, and the bases of its segments.

    `length` counts instructions without the loads at the start and the SYNCs between.
    """
    writer = _RandomWriter(rng, config)
    makers = (writer.load, writer.gemm, writer.gemm, writer.vector, writer.vector, writer.store)
    for memory in (Memory.INP, Memory.WGT, Memory.VEC, Memory.PARAM, Memory.LUT):
        writer.first_load(memory)
    while len(writer.issued) < length:
        makers[int(rng.integers(len(makers)))]()
    writer.drain()
    writer.finish()
    program = Program(
        instructions=tuple(each.instruction for each in writer.issued),
        digest=config.digest,
        segments=segment_bytes(config),
    )
    check_program(program, config)
    dram, bases = _random_dram(rng, config)
    return program, dram, bases


def _random_dram(
    rng: np.random.Generator, config: AccelConfig
) -> tuple[NDArray[np.uint8], tuple[int, ...]]:
    bases: list[int] = []
    end = 0
    for size in segment_bytes(config):
        base = end + int(rng.integers(64)) * max(8, config.bus_bytes)
        bases.append(base - base % max(8, config.bus_bytes))
        end = bases[-1] + size
    dram = rng.integers(0, 256, -(-end // 4096) * 4096, dtype=np.uint8)
    count = segment_bytes(config)[PARAM_SEGMENT] // 8
    words = pack_parameters(
        rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 32, count),
        rng.integers(-(1 << 23), 1 << 23, count) >> rng.integers(0, 24, count),
        np.where(rng.integers(8, size=count) > 0, rng.integers(0, 32, count), 56),
    )
    base = bases[PARAM_SEGMENT]
    dram[base : base + 8 * count] = words.astype("<u8").view(np.uint8)
    return dram, tuple(bases)


class _RandomWriter(OrderedWriter):
    """Makes random instructions of tiles that are there."""

    @cached_property
    def segments(self) -> tuple[int, ...]:
        return segment_bytes(self.config)

    # --- random pieces --------------------------------------------------------------------------

    def _extents(self, loops: int, limit: int = ITERATIONS_MAX) -> tuple[int, ...]:
        field = 1 << max(self.config.index_bits(m) for m in Memory if m is not Memory.LUT)
        extents = [1] * loops
        for loop in self.rng.permutation(loops)[: self.rng.integers(1, loops + 1)]:
            room = min(limit // int(np.prod(extents)), field, 6)
            extents[loop] = int(self.rng.integers(1, room + 1)) if room > 1 else 1
        return tuple(extents)

    def _nest(
        self, extents: Sequence[int], room: range, fixed: Sequence[int] = ()
    ) -> tuple[int, tuple[int, ...]]:
        """Return base and strides whose places lie in `room`; loops in `fixed` do not move."""
        strides = [0] * len(extents)
        left = len(room) - 1
        for loop in self.rng.permutation(len(extents)):
            if loop in fixed or (extents[loop] > 1 and left < extents[loop] - 1):
                continue
            most = left // (extents[loop] - 1) if extents[loop] > 1 else min(3, len(room) - 1)
            strides[loop] = int(
                self.rng.choice([0, min(1, most), int(self.rng.integers(0, most + 1))])
            )
            left -= (extents[loop] - 1) * strides[loop]
        base = room.start + int(self.rng.integers(0, left + 1))
        return base, tuple(strides)

    def _all_valid(self, memory: Memory, places: NDArray[np.int64]) -> bool:
        return bool(self.valid[memory][places].all())

    # --- instructions ---------------------------------------------------------------------------

    def first_load(self, memory: Memory) -> None:
        """Fill a good part of a memory, so that instructions find something to read."""
        if memory is Memory.LUT:
            if self.config.has_lut:
                self._load_table()
            return
        room = self.segments[PARAM_SEGMENT] // self.config.dram_tile_bytes(memory)
        field = 1 << max(self.config.index_bits(m) for m in Memory if m is not Memory.LUT)
        count = min(self.config.depth(memory), room, field)
        segment = PARAM_SEGMENT if memory is Memory.PARAM else 1
        self.issue(Load(memory=memory, sram=0, segment=segment, address=0, size=(1, 1, count)))

    def _load_table(self) -> None:
        field = 1 << max(self.config.index_bits(m) for m in Memory if m is not Memory.LUT)
        side = min(field, 16)
        load = Load(
            memory=Memory.LUT,
            sram=256 * int(self.rng.integers(self.config.lut_depth // 256)),
            segment=int(self.rng.integers(1, len(self.segments))),
            address=0,
            size=(256 // side**2, side, side),
            stride=(side**2 * self.config.beats(Memory.LUT), side * self.config.beats(Memory.LUT)),
        )
        if load.size[0] <= field:
            self.issue(load)

    def load(self) -> None:
        """Issue a random load."""
        memory = Memory(int(self.rng.integers(5)))
        if memory is Memory.LUT:
            if self.config.has_lut and self._chance(4):
                self._load_table()
            return
        config, beats = self.config, self.config.beats(memory)
        segment = int(self.rng.integers(1, 4))
        step = 1
        if memory is Memory.PARAM:
            segment, step = PARAM_SEGMENT, max(1, 8 // config.bus_bytes)
        size = self._extents(3, min(24, config.depth(memory)))
        pad = (0, 0, 0, 0)
        if memory in (Memory.INP, Memory.VEC) and self._chance(2):
            pad = tuple(int(value) for value in self.rng.integers(0, 3, 4))  # type: ignore[assignment]
        strides = [int(v) * step for v in self.rng.integers(0, 3 * beats * size[2] + 2, 2)]
        last = reach(0, size, (*strides, beats)) + beats
        room = self.segments[segment] // config.bus_bytes - last
        if room < 0:
            return
        load = Load(
            memory=memory,
            sram=0,
            segment=segment,
            address=int(self.rng.integers(0, room // step + 1)) * step,
            size=(size[0], size[1], size[2]),
            stride=(strides[0], strides[1]),
            pad=pad,
            pad_value=self._element(),
        )
        free = config.depth(memory) - padded_tiles(load)
        if free >= 0:
            self.issue(replace(load, sram=int(self.rng.integers(0, free + 1))))

    def _element(self) -> int:
        half = 1 << (self.config.inp_bits - 1)
        return int(self.rng.choice([int(self.rng.integers(-half, half)), 0, -half, half - 1]))

    def _bank(self) -> range:
        depth = self.config.acc_bank_depth
        first = depth * int(self.rng.integers(self.config.acc_banks))
        return range(first, first + depth)

    def gemm(self) -> None:
        """Issue a random gemm."""
        config = self.config
        for _ in range(20):
            extents = self._extents(GEMM_LOOPS)
            mask = int(self.rng.integers(1 << GEMM_LOOPS))
            reducing = [loop for loop in range(GEMM_LOOPS) if mask >> loop & 1]
            acc, acc_strides = self._nest(extents, self._bank(), reducing)
            inp, inp_strides = self._nest(extents, range(config.inp_depth))
            wgt, wgt_strides = self._nest(extents, range(config.wgt_depth))
            gemm = Gemm(
                accumulate=self._chance(3),
                reduce=mask,
                extents=extents,
                acc=acc,
                acc_strides=acc_strides,
                inp=inp,
                inp_strides=inp_strides,
                wgt=wgt,
                wgt_strides=wgt_strides,
            )
            ready = self._all_valid(Memory.INP, places_of(inp, extents, inp_strides))
            ready &= self._all_valid(Memory.WGT, places_of(wgt, extents, wgt_strides))
            if gemm.accumulate:
                ready &= self._all_valid(Memory.ACC, places_of(acc, extents, acc_strides))
            if ready:
                self.issue(gemm)
                return

    def vector(self) -> None:
        """Issue a random vector instruction."""
        for _ in range(60):
            vector = self._vector()
            broken = list(legality.broken_rules(vector, self.config, self.segments))
            if not broken and self._vector_ready(vector):
                self.issue(vector)
                return

    def _vector(self) -> Vector:
        rng, config = self.rng, self.config
        op = VectorOp(int(rng.integers(6)))
        residual = op is VectorOp.PASS and self._chance(3)
        reduce_loops = 0 if residual else int(rng.choice([0, 0, 1, 2, 3]))
        reduce = Reduce(int(rng.integers(1, 4))) if reduce_loops else Reduce.NONE
        reducing = range(VECTOR_LOOPS - reduce_loops, VECTOR_LOOPS)
        x_source = XSource.ACC if residual else XSource(int(rng.integers(2)))
        y_source = YSource(int(rng.integers(4))) if op is not VectorOp.PASS else YSource.IMMEDIATE
        y_source = YSource.VEC if residual else y_source
        destination = Destination.ACC if self._chance(3) else Destination.OUT
        extents, bank = self._extents(VECTOR_LOOPS), self._bank()
        rooms = {
            XSource.ACC: bank,
            XSource.VEC: range(config.vec_depth),
        }
        y_rooms: dict[YSource, range] = {
            YSource.ACC: bank,
            YSource.VEC: range(config.vec_depth),
            YSource.PARAM: range(4 * config.param_depth),
            YSource.IMMEDIATE: range(1),
        }
        target = bank if destination is Destination.ACC else range(config.out_depth)
        dst, dst_strides = self._nest(extents, target, reducing)
        x, x_strides = self._nest(extents, rooms[x_source])
        y, y_strides = self._nest(extents, y_rooms[y_source])
        q, q_strides = self._nest(extents, range(config.param_depth), reducing)
        if destination is Destination.ACC and self._chance(2):
            if x_source is XSource.ACC:
                x, x_strides = dst, dst_strides
            elif y_source is YSource.ACC:
                y, y_strides = dst, dst_strides
        low, high = sorted((self._element(), self._element()))
        return Vector(
            op=op,
            reduce=reduce,
            reduce_loops=reduce_loops,
            x_source=x_source,
            y_source=y_source,
            destination=destination,
            requantize=residual or self._chance(2),
            residual=residual,
            lookup=config.has_lut and destination is Destination.OUT and self._chance(4),
            extents=extents,
            dst=dst,
            dst_strides=dst_strides,
            x=x,
            x_strides=x_strides,
            y=y,
            y_strides=y_strides,
            q=q,
            q_strides=q_strides,
            immediate=int(rng.integers(-(1 << 15), 1 << 15)) >> int(rng.integers(16)),
            residual_shift=int(rng.integers(25)),
            vec_zero_point=self._element(),
            zero_point=self._element(),
            low=low,
            high=high,
            lut_base=256 * int(rng.integers(config.lut_depth // 256)) if config.has_lut else 0,
        )

    def _vector_ready(self, vector: Vector) -> bool:
        """Whether every tile that may be read has been written."""
        ready = True
        for tiles in footprint(vector):
            if not tiles.written:
                ready &= bool(self.valid[tiles.memory][tiles.first : tiles.end].all())
        return ready

    def store(self) -> None:
        """Issue a random store of tiles that have been written."""
        config, beats = self.config, self.config.beats(Memory.OUT)
        for _ in range(20):
            size = self._extents(3, config.out_depth)
            row = size[2] * beats
            y_stride = row + int(self.rng.integers(0, 3))
            z_stride = (size[1] - 1) * y_stride + row + int(self.rng.integers(0, 3))
            if self._chance(3):
                z_stride, y_stride = row, (size[0] - 1) * row + row
            segment = int(self.rng.integers(1, len(self.segments)))
            strides = (z_stride, y_stride)
            room = self.segments[segment] // config.bus_bytes
            room -= reach(0, size, (*strides, beats)) + beats
            count = int(np.prod(size))
            first = int(self.rng.integers(0, config.out_depth - count + 1))
            if room >= 0 and self.valid[Memory.OUT][first : first + count].all():
                self.issue(
                    Store(
                        sram=first,
                        segment=segment,
                        address=int(self.rng.integers(0, room + 1)),
                        size=(size[0], size[1], size[2]),
                        stride=strides,
                    )
                )
                return

    def drain(self) -> None:
        """Bring every accumulator and output that was written to DRAM, as far as it fits."""
        self._store_outputs()
        config, count = self.config, min(self.config.out_depth, self.config.acc_bank_depth)
        strides = (0, 0, 0, 0, 1)
        half = 1 << (config.inp_bits - 1)
        drain = Vector(
            op=VectorOp.PASS,
            x_source=XSource.ACC,
            destination=Destination.OUT,
            extents=(1, 1, 1, 1, 1),
            dst=0,
            dst_strides=strides,
            x=0,
            x_strides=strides,
            low=-half,
            high=half - 1,
        )
        for first in range(0, config.acc_depth, count):
            for start, end in self._runs(Memory.ACC, first, first + count):
                self.issue(replace(drain, x=start, extents=(1, 1, 1, 1, end - start)))
        self._store_outputs()

    def _store_outputs(self) -> None:
        config = self.config
        most = self.segments[3] // config.dram_tile_bytes(Memory.OUT)
        for start, end in self._runs(Memory.OUT, 0, min(config.out_depth, most)):
            address = start * config.beats(Memory.OUT)
            self.issue(Store(sram=start, segment=3, address=address, size=(1, 1, end - start)))

    def _runs(self, memory: Memory, first: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of written tiles in first .. end."""
        edges = np.flatnonzero(np.diff(self.valid[memory][first:end], prepend=0, append=0))
        return [(first + int(a), first + int(b)) for a, b in edges.reshape(-1, 2)]
