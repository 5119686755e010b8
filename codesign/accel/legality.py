"""Which instructions a configuration can execute: the rules that concern one alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from codesign.accel.config import LOADABLE, VECTOR_LOOPS, AccelConfig, Memory
from codesign.accel.encoding import misfits
from codesign.accel.footprint import (
    Tiles,
    dram_footprint,
    footprint,
    visits_once,
)
from codesign.accel.isa import (
    NEIGHBOURS,
    RESIDUAL_SHIFT_MAX,
    Destination,
    Gemm,
    Instruction,
    Load,
    Reduce,
    Store,
    Sync,
    Vector,
    VectorOp,
    XSource,
    YSource,
)
from codesign.accel.rules import LUT_ENTRIES


def broken_rules(
    instruction: Instruction, config: AccelConfig, segments: Sequence[int]
) -> Iterator[str]:
    """Yield a sentence for every rule that one instruction breaks.

    `segments` are the sizes of the program's DRAM segments in bytes.
    """
    unfit = [problem.title_text() for problem in misfits(instruction, config)]
    if unfit:
        yield from unfit
        return
    yield from _tokens(instruction)
    yield from _ranges(instruction, config)
    yield from _dram(instruction, config, segments)
    match instruction:
        case Sync():
            pass
        case Load():
            yield from _load(instruction, config)
        case Gemm():
            yield from _gemm(instruction)
        case Vector():
            yield from _vector(instruction, config)
        case Store():
            yield from _store(instruction, config)
        case _:
            assert_never(instruction)


def _tokens(instruction: Instruction) -> Iterator[str]:
    unit = instruction.unit
    strangers = (instruction.wait | instruction.push) - set(NEIGHBOURS[unit])
    for stranger in sorted(strangers):
        yield f"{unit.name.lower()} exchanges no tokens with {stranger.name.lower()}"


def _ranges(instruction: Instruction, config: AccelConfig) -> Iterator[str]:
    touched = footprint(instruction)
    for tiles in touched:
        depth = config.depth(tiles.memory)
        if tiles.end > depth:
            name = tiles.memory.name.lower()
            yield f"reaches {name} tile {tiles.end - 1}; {name} has {depth} tiles"
    yield from _banks(touched, config)


def _banks(touched: Sequence[Tiles], config: AccelConfig) -> Iterator[str]:
    accumulators = [tiles for tiles in touched if tiles.memory is Memory.ACC]
    if not accumulators:
        return
    low = min(tiles.first for tiles in accumulators) // config.acc_bank_depth
    high = (max(tiles.end for tiles in accumulators) - 1) // config.acc_bank_depth
    if low != high:
        yield f"touches accumulator banks {low} and {high}; an instruction has one bank"


def _dram(instruction: Instruction, config: AccelConfig, segments: Sequence[int]) -> Iterator[str]:
    place = dram_footprint(instruction, config)
    if place is None:
        return
    if place.segment >= len(segments):
        yield f"uses segment {place.segment}; the program has {len(segments)}"
    elif place.end > segments[place.segment]:
        yield (
            f"reaches byte {place.end - 1} of segment {place.segment}, "
            f"which has {segments[place.segment]} bytes"
        )


def _load(load: Load, config: AccelConfig) -> Iterator[str]:
    name = load.memory.name.lower()
    if load.memory not in LOADABLE:
        yield f"loads into {name}; only {', '.join(m.name.lower() for m in LOADABLE)} are loadable"
    if load.memory is Memory.LUT and not config.has_lut:
        yield "loads a lookup table; the configuration has none (has_lut)"
    if any(load.pad) and load.memory not in (Memory.INP, Memory.VEC):
        yield f"pads {name}; only inp and vec take padding"


def _gemm(gemm: Gemm) -> Iterator[str]:
    for loop, (extent, stride) in enumerate(zip(gemm.extents, gemm.acc_strides, strict=True)):
        if gemm.reduce >> loop & 1 and extent > 1 and stride:
            yield f"reduces over loop {loop}, which moves the accumulator by {stride}"


def _vector(vector: Vector, config: AccelConfig) -> Iterator[str]:
    yield from _vector_reduction(vector)
    yield from _vector_operands(vector)
    yield from _vector_options(vector, config)
    yield from _vector_overlap(vector)


def _vector_reduction(vector: Vector) -> Iterator[str]:
    if vector.reduce_loops > VECTOR_LOOPS:
        yield f"reduces over {vector.reduce_loops} loops of {VECTOR_LOOPS}"
        return
    if vector.reduce is Reduce.NONE and vector.reduce_loops:
        yield f"has {vector.reduce_loops} reducing loops, but reduce=none"
    first = VECTOR_LOOPS - vector.reduce_loops
    for name, strides in (("destination", vector.dst_strides), ("q", vector.q_strides)):
        moving = zip(vector.extents[first:], strides[first:], strict=True)
        if any(extent > 1 and stride for extent, stride in moving):
            yield f"moves the {name} in a reducing loop"


def _vector_operands(vector: Vector) -> Iterator[str]:
    for x, y in ((XSource.ACC, YSource.ACC), (XSource.VEC, YSource.VEC)):
        if vector.x_source is x and vector.y_source is y:
            yield f"takes x and y from {x.name.lower()}, which has one port"
    if vector.residual:
        if vector.op is not VectorOp.PASS or vector.y_source is not YSource.VEC:
            yield "has a residual, so it must be op=pass with y_source=vec"
        if not vector.requantize or vector.reduce is not Reduce.NONE:
            yield "has a residual, so it must requantize and not reduce"
        if vector.residual_shift > RESIDUAL_SHIFT_MAX:
            yield f"shifts the residual by {vector.residual_shift}, more than {RESIDUAL_SHIFT_MAX}"
    elif vector.op is VectorOp.PASS and vector.y_source is not YSource.IMMEDIATE:
        yield "names a source of y, which op=pass does not read"


def _vector_options(vector: Vector, config: AccelConfig) -> Iterator[str]:
    if (vector.op is VectorOp.MUL or vector.residual) and not config.has_multiplier:
        yield "multiplies by y; the configuration cannot (has_multiplier)"
    if vector.low > vector.high:
        yield f"clips to {vector.low} .. {vector.high}, which is empty"
    if not vector.lookup:
        return
    if not config.has_lut:
        yield "looks up a table; the configuration has none (has_lut)"
    if vector.destination is Destination.ACC:
        yield "looks up a table for a destination in acc"
    if vector.lut_base % LUT_ENTRIES:
        yield f"has lut_base {vector.lut_base}, which is no multiple of {LUT_ENTRIES}"


def _vector_overlap(vector: Vector) -> Iterator[str]:
    if vector.destination is not Destination.ACC:
        return
    tiles = footprint(vector)
    written = next(each for each in tiles if each.written)
    for name, base, strides in (
        ("x", vector.x, vector.x_strides),
        ("y", vector.y, vector.y_strides),
    ):
        source = vector.x_source is XSource.ACC if name == "x" else vector.y_source is YSource.ACC
        if not source:
            continue
        read = next(each for each in tiles if each.memory is Memory.ACC and not each.written)
        if read.first >= written.end or written.first >= read.end:
            continue
        in_place = (base, strides) == (vector.dst, vector.dst_strides)
        if not in_place or not visits_once(vector.extents, strides):
            yield f"reads {name} from accumulators that it also writes, other than tile by tile"


def _store(store: Store, config: AccelConfig) -> Iterator[str]:
    beats = config.beats(Memory.OUT)
    if not visits_once(store.size, (*store.stride, beats), beats):
        yield "writes a box whose tiles overlap in DRAM"
