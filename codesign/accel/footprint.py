"""Which tiles of which memories, and which bytes of DRAM, an instruction reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never, final

from codesign.accel.arithmetic import FIELDS_PER_WORD
from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import (
    Destination,
    Gemm,
    Instruction,
    Load,
    Store,
    Sync,
    Vector,
    VectorOp,
    XSource,
    YSource,
)
from codesign.accel.rules import LUT_ENTRIES

X_MEMORY: Final = {XSource.ACC: Memory.ACC, XSource.VEC: Memory.VEC}
Y_MEMORY: Final = {YSource.ACC: Memory.ACC, YSource.VEC: Memory.VEC, YSource.PARAM: Memory.PARAM}
DESTINATION_MEMORY: Final = {Destination.OUT: Memory.OUT, Destination.ACC: Memory.ACC}


@final
@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles `first` up to, not including, `end` of a memory: what an instruction may touch."""

    memory: Memory
    first: int
    end: int
    written: bool


@final
@dataclass(frozen=True, slots=True)
class SegmentBytes:
    """Bytes `first` up to, not including, `end` of a DRAM segment."""

    segment: int
    first: int
    end: int
    written: bool


def reach(base: int, extents: Sequence[int], strides: Sequence[int]) -> int:
    """Return the greatest index of a loop nest; the least is `base`, as strides are not negative.

    Examples
    --------
    >>> reach(5, (1, 2, 3), (9, 4, 1))
    11
    """
    steps = zip(extents, strides, strict=True)
    return base + sum((extent - 1) * stride for extent, stride in steps)


def visits_once(extents: Sequence[int], strides: Sequence[int], width: int = 1) -> bool:
    """Whether a loop nest surely visits no place twice, where every visit covers `width` places.

    It answers no where a stride does not exceed what the loops of smaller strides cover.

    Examples
    --------
    >>> visits_once((4, 3), (3, 1)), visits_once((4, 3), (2, 1)), visits_once((1, 3), (0, 1))
    (True, False, True)
    """
    covered = width - 1
    for stride, extent in sorted(zip(strides, extents, strict=True)):
        if extent > 1:
            if stride <= covered:
                return False
            covered += (extent - 1) * stride
    return True


def padded_tiles(load: Load) -> int:
    """Return the tiles that a load writes, padding included."""
    (z, y, x), (top, bottom, left, right) = load.size, load.pad
    return z * (top + y + bottom) * (left + x + right)


def reads_y(vector: Vector) -> bool:
    """Whether operand y takes part."""
    return vector.op is not VectorOp.PASS or vector.residual


def footprint(instruction: Instruction) -> tuple[Tiles, ...]:
    """Return the tiles that an instruction may touch; the ranges are hulls of the loop nests."""
    match instruction:
        case Sync():
            return ()
        case Load():
            first = instruction.sram
            return (Tiles(instruction.memory, first, first + padded_tiles(instruction), True),)
        case Store(sram=first, size=(z, y, x)):
            return (Tiles(Memory.OUT, first, first + z * y * x, False),)
        case Gemm():
            return tuple(_gemm(instruction))
        case Vector():
            return tuple(_vector(instruction))
        case _:
            assert_never(instruction)


def _gemm(gemm: Gemm) -> Iterator[Tiles]:
    for memory, base, strides in (
        (Memory.INP, gemm.inp, gemm.inp_strides),
        (Memory.WGT, gemm.wgt, gemm.wgt_strides),
        (Memory.ACC, gemm.acc, gemm.acc_strides),
    ):
        end = reach(base, gemm.extents, strides) + 1
        yield Tiles(memory, base, end, written=memory is Memory.ACC)


def _vector(vector: Vector) -> Iterator[Tiles]:
    extents = vector.extents
    yield Tiles(
        X_MEMORY[vector.x_source], vector.x, reach(vector.x, extents, vector.x_strides) + 1, False
    )
    if reads_y(vector) and vector.y_source is not YSource.IMMEDIATE:
        memory = Y_MEMORY[vector.y_source]
        parts = FIELDS_PER_WORD if memory is Memory.PARAM else 1
        last = reach(vector.y, extents, vector.y_strides)
        yield Tiles(memory, vector.y // parts, last // parts + 1, False)
    if vector.requantize:
        last = reach(vector.q, extents, vector.q_strides)
        yield Tiles(Memory.PARAM, vector.q, last + 1, False)
    if vector.lookup:
        yield Tiles(Memory.LUT, vector.lut_base, vector.lut_base + LUT_ENTRIES, False)
    last = reach(vector.dst, extents, vector.dst_strides)
    yield Tiles(DESTINATION_MEMORY[vector.destination], vector.dst, last + 1, True)


def dram_footprint(instruction: Instruction, config: AccelConfig) -> SegmentBytes | None:
    """Return the hull of the bytes that a load reads or a store writes."""
    match instruction:
        case Load():
            memory = instruction.memory
        case Store():
            memory = Memory.OUT
        case _:
            return None
    strides = (*instruction.stride, config.beats(memory))
    last = reach(instruction.address, instruction.size, strides)
    return SegmentBytes(
        instruction.segment,
        instruction.address * config.bus_bytes,
        (last + config.beats(memory)) * config.bus_bytes,
        written=isinstance(instruction, Store),
    )
