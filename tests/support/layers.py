"""Programs written by hand: double-buffered 3x3 convolutions and what follows them; loads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codesign.accel.arithmetic import pack_parameters
from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import (
    Destination,
    Gemm,
    Instruction,
    Load,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    XSource,
    YSource,
)
from codesign.accel.program import Program, check_program
from codesign.accel.rules import LUT_ENTRIES

KERNEL = 3
PARAMETERS, INPUTS, WEIGHTS, RESIDUALS, OUTPUTS, TABLE = range(6)
"""Segments."""


@dataclass(frozen=True, kw_only=True)
class Convolutions:
    """`rounds` convolutions of `side` x `side` outputs over `channels` tiles of input channels.

    Rounds alternate between the halves of the memories, so that loading, multiplying, scaling and
    storing overlap. With `has_residual` vec tiles are added; with tables, results are looked up.
    """

    side: int
    channels: int = 1
    rounds: int = 1
    has_residual: bool = True


Image = tuple[Program, NDArray[np.uint8], tuple[int, ...]]


def convolutions(config: AccelConfig, shape: Convolutions, seed: int = 0) -> Image:
    """Return a program, DRAM, and the bases of its segments."""
    segments = _segments(config, shape)
    program = Program(
        instructions=tuple(_instructions(config, shape)),
        digest=config.digest,
        segments=segments,
    )
    return (program, *_memory(program, config, seed))


def loads(config: AccelConfig, size_bytes: int) -> Image:
    """Return a program that only streams bytes into `wgt`, filling it again and again."""
    tile_bytes, depth = config.dram_tile_bytes(Memory.WGT), config.wgt_depth
    count = size_bytes // tile_bytes
    instructions = tuple(
        Load(
            memory=Memory.WGT,
            sram=0,
            segment=INPUTS,
            address=first * config.beats(Memory.WGT),
            size=(1, 1, min(depth, count - first)),
        )
        for first in range(0, count, depth)
    )
    program = Program(
        instructions=instructions, digest=config.digest, segments=(4096, count * tile_bytes)
    )
    return (program, *_memory(program, config, 0))


def _segments(config: AccelConfig, shape: Convolutions) -> tuple[int, ...]:
    outputs = shape.side**2
    tiles = {
        PARAMETERS: config.dram_tile_bytes(Memory.PARAM),
        INPUTS: shape.channels * outputs * config.dram_tile_bytes(Memory.INP),
        WEIGHTS: shape.channels * KERNEL**2 * config.dram_tile_bytes(Memory.WGT),
        RESIDUALS: outputs * config.dram_tile_bytes(Memory.VEC),
        OUTPUTS: shape.rounds * outputs * config.dram_tile_bytes(Memory.OUT),
        TABLE: LUT_ENTRIES * config.bus_bytes,
    }
    return tuple(-(-tiles[segment] // 4096) * 4096 for segment in range(len(tiles)))


def _memory(
    program: Program, config: AccelConfig, seed: int
) -> tuple[NDArray[np.uint8], tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    bases = tuple(int(base) for base in np.cumsum([0, *program.segments[:-1]]))
    dram = rng.integers(0, 256, sum(program.segments), dtype=np.uint8)
    count = program.segments[PARAMETERS] // 8
    words = pack_parameters(
        rng.integers(-1000, 1000, count),
        rng.integers(1 << 21, 1 << 22, count),
        np.full(count, 28 + config.inp_bits // 4),
    )
    dram[: 8 * count] = words.astype("<u8").view(np.uint8)
    check_program(program, config)
    return dram, bases


def _instructions(config: AccelConfig, shape: Convolutions) -> Iterator[Instruction]:
    if config.has_lut:
        yield Load(
            memory=Memory.LUT,
            sram=0,
            segment=TABLE,
            address=0,
            size=(16, 16, 1),
            stride=(16 * config.beats(Memory.LUT), config.beats(Memory.LUT)),
        )
    yield Load(
        memory=Memory.PARAM,
        sram=0,
        segment=PARAMETERS,
        address=0,
        size=(1, 1, 1),
        push=frozenset({Unit.VECTOR}),
    )
    for index in range(shape.rounds):
        yield from _round(config, shape, index)


def _round(config: AccelConfig, shape: Convolutions, index: int) -> Iterator[Instruction]:
    """Yield one convolution; the round before last must be done with this round's halves."""
    half, again, more = index % 2, index >= 2, index + 2 < shape.rounds
    outputs = shape.side**2

    def units(*pairs: tuple[Unit, bool]) -> frozenset[Unit]:
        return frozenset(unit for unit, wanted in pairs if wanted)

    inp, wgt = half * config.inp_depth // 2, half * config.wgt_depth // 2
    vec, out = half * config.vec_depth // 2, half * config.out_depth // 2
    acc = index % config.acc_banks * config.acc_bank_depth
    row = shape.side * config.beats(Memory.INP)
    yield Load(
        memory=Memory.INP,
        sram=inp,
        segment=INPUTS,
        address=0,
        size=(shape.channels, shape.side, shape.side),
        stride=(shape.side * row, row),
        pad=(1, 1, 1, 1),
        wait=units((Unit.GEMM, again)),
    )
    yield Load(
        memory=Memory.WGT,
        sram=wgt,
        segment=WEIGHTS,
        address=0,
        size=(1, 1, shape.channels * KERNEL**2),
        push=frozenset({Unit.GEMM}),
    )
    if shape.has_residual:
        yield Load(
            memory=Memory.VEC,
            sram=vec,
            segment=RESIDUALS,
            address=0,
            size=(1, 1, outputs),
            wait=units((Unit.VECTOR, again)),
            push=frozenset({Unit.VECTOR}),
        )
    yield _gemm(
        shape,
        (acc, inp, wgt),
        wait=units((Unit.LOAD, True), (Unit.VECTOR, index >= config.acc_banks)),
        push=units((Unit.LOAD, more), (Unit.VECTOR, True)),
    )
    if index == 0 and shape.has_residual:
        yield Sync(unit=Unit.VECTOR, wait=frozenset({Unit.LOAD}))
    yield Vector(
        op=VectorOp.PASS,
        x_source=XSource.ACC,
        y_source=YSource.VEC if shape.has_residual else YSource.IMMEDIATE,
        destination=Destination.OUT,
        requantize=True,
        residual=shape.has_residual,
        lookup=config.has_lut,
        extents=(1, 1, 1, 1, outputs),
        dst=out,
        dst_strides=(0, 0, 0, 0, 1),
        x=acc,
        x_strides=(0, 0, 0, 0, 1),
        y=vec if shape.has_residual else 0,
        y_strides=(0, 0, 0, 0, int(shape.has_residual)),
        immediate=19 if shape.has_residual else 0,
        residual_shift=16 if shape.has_residual else 0,
        low=-(1 << (config.inp_bits - 1)),
        high=(1 << (config.inp_bits - 1)) - 1,
        wait=units(
            (Unit.GEMM, True),
            (Unit.STORE, again),
            (Unit.LOAD, index == 0 or shape.has_residual),
        ),
        push=units(
            (Unit.GEMM, index + config.acc_banks < shape.rounds),
            (Unit.LOAD, more and shape.has_residual),
            (Unit.STORE, True),
        ),
    )
    yield Store(
        sram=out,
        segment=OUTPUTS,
        address=index * outputs * config.beats(Memory.OUT),
        size=(1, 1, outputs),
        wait=frozenset({Unit.VECTOR}),
        push=units((Unit.VECTOR, more)),
    )


def _gemm(
    shape: Convolutions,
    bases: tuple[int, int, int],
    wait: frozenset[Unit],
    push: frozenset[Unit],
) -> Gemm:
    """Return the whole convolution in one instruction: rows, columns, channels, kernel."""
    acc, inp, wgt = bases
    width = shape.side + KERNEL - 1
    return Gemm(
        reduce=0b011100,
        extents=(shape.side, shape.side, shape.channels, KERNEL, KERNEL, 1),
        acc=acc,
        acc_strides=(shape.side, 1, 0, 0, 0, 0),
        inp=inp,
        inp_strides=(width, 1, width * width, width, 1, 0),
        wgt=wgt,
        wgt_strides=(0, 0, KERNEL**2, KERNEL, 1, 0),
        wait=wait,
        push=push,
    )
