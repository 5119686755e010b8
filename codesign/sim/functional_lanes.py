"""The vector unit as machine code: blocks of tiles, every step exact for each of their lanes.

`codesign.accel.arithmetic` defines every rule; each is stated here once more, as a loop. Lanes are
int64: sums of 33 bits, products of 57 and sums with a residual of 58 are exact.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from codesign.accel.arithmetic import FIELDS_PER_WORD, LANE_BITS
from codesign.accel.config import Memory
from codesign.accel.isa import (
    IMMEDIATE_BITS,
    MULTIPLIER_BITS,
    SHIFT_MAX,
    Reduce,
    VectorOp,
    XSource,
    YSource,
)
from codesign.dtypes import Array
from codesign.sim.functional_compiled import ShiftFault, TileFault, compiled, compiled_part

BLOCK_LANES: Final = 1024
"""Lanes that go through a step together: enough to make calls cheap, few enough for a cache."""

_ADD: Final = int(VectorOp.ADD)
_SUB: Final = int(VectorOp.SUB)
_MUL: Final = int(VectorOp.MUL)
_MIN: Final = int(VectorOp.MIN)
_MAX: Final = int(VectorOp.MAX)
_SUM: Final = int(Reduce.SUM)
_LEAST: Final = int(Reduce.MIN)
_GREATEST: Final = int(Reduce.MAX)
_X_ACC: Final = int(XSource.ACC)
_Y_PARAM: Final = int(YSource.PARAM)
_Y_ACC: Final = int(YSource.ACC)
_Y_VEC: Final = int(YSource.VEC)

_ACC: Final = int(Memory.ACC)
_VEC: Final = int(Memory.VEC)
_PARAM: Final = int(Memory.PARAM)
_LUT: Final = int(Memory.LUT)

_LANE_LOW: Final = -(1 << (LANE_BITS - 1))
_LANE_HIGH: Final = (1 << (LANE_BITS - 1)) - 1
_BIAS_UNUSED: Final = 64 - LANE_BITS
_MULTIPLIER_UNUSED: Final = 64 - MULTIPLIER_BITS
_SHIFT_AT: Final = LANE_BITS + MULTIPLIER_BITS
_FIELD_UNUSED: Final = 64 - IMMEDIATE_BITS


class Work(NamedTuple):
    """The numbers of a vector instruction, and what of the configuration its result depends on.

    `y_source` is IMMEDIATE too where no y takes part.
    """

    op: int
    reduce: int
    x_source: int
    y_source: int
    to_acc: int
    requantize: int
    residual: int
    lookup: int
    immediate: int
    residual_shift: int
    vec_zero_point: int
    zero_point: int
    low: int
    high: int
    lut_base: int
    inp_bits: int
    acc_bits: int


class Places(NamedTuple):
    """Where the operands of every iteration lie: int64 vectors.

    Places of x and y are the sum of one by outer and one by reducing iteration; q and dst do not
    move in reducing loops.
    """

    x: Any
    x_inner: Any
    y: Any
    y_inner: Any
    q: Any
    dst: Any


class Pads(NamedTuple):
    """The memories as matrices [tile, element], and which tiles are written.

    Param words are int64.
    """

    acc: Any
    vec: Any
    out: Any
    param: Any
    lut: Any
    acc_written: Any
    vec_written: Any
    out_written: Any
    param_written: Any
    lut_written: Any


@compiled
def run(work: Work, places: Places, pads: Pads) -> None:
    """Execute one vector instruction of tiles within the memories, or raise what stops it."""
    lanes = pads.acc.shape[1]
    block = max(1, BLOCK_LANES // lanes)
    buffers = np.zeros((4, block * lanes), np.int64)
    scale = np.empty((5, pads.param.shape[1]), np.int64)
    buffers[2] = work.immediate
    for first in range(0, len(places.dst), block):
        end = min(first + block, len(places.dst))
        width = (end - first) * lanes
        total, term, y, residual = (
            buffers[0, :width],
            buffers[1, :width],
            buffers[2, :width],
            buffers[3, :width],
        )
        _reduced(work, places, pads, first, end, total, term, y)
        if work.residual:
            _residual_term(y, work.immediate, work.residual_shift, residual)
        if work.requantize:
            _requantize(pads.param, pads.param_written, places.q[first:end], scale, total, residual)
        if work.to_acc:
            _saturate(total, work.acc_bits)
            _write(pads.acc, pads.acc_written, places.dst[first:end], total)
        else:
            _quantized_output(total, work.zero_point, work.low, work.high)
            if work.lookup:
                _look_up(pads.lut, pads.lut_written, work.lut_base, total)
            _write(pads.out, pads.out_written, places.dst[first:end], total)


# --- terms ----------------------------------------------------------------------------------------


@compiled_part
def _reduced(
    work: Work,
    places: Places,
    pads: Pads,
    first: int,
    end: int,
    total: Array,
    term: Array,
    y: Array,
) -> None:
    """Set total to what the reducing loops make of outer iterations first up to end.

    `y` keeps the last operand y.
    """
    for inner in range(len(places.x_inner)):
        x = total if inner == 0 else term
        x_tiles = places.x[first:end] + places.x_inner[inner]
        if work.x_source == _X_ACC:
            _read(_ACC, pads.acc, pads.acc_written, x_tiles, 0, x)
        else:
            _read(_VEC, pads.vec, pads.vec_written, x_tiles, work.vec_zero_point, x)
        y_places = places.y[first:end] + places.y_inner[inner]
        if work.y_source == _Y_PARAM:
            _read_fields(pads.param, pads.param_written, y_places, y)
        elif work.y_source == _Y_ACC:
            _read(_ACC, pads.acc, pads.acc_written, y_places, 0, y)
        elif work.y_source == _Y_VEC:
            _read(_VEC, pads.vec, pads.vec_written, y_places, work.vec_zero_point, y)
        _combine(work.op, x, y, work.inp_bits)
        if inner > 0:
            _reduce(work.reduce, total, term)


@compiled_part
def _read(
    memory: int, values: Array, written: Array, tiles: Array, zero_point: int, out: Array
) -> None:
    lanes = values.shape[1]
    for index in range(len(tiles)):
        tile = tiles[index]
        if not written[tile]:
            raise TileFault(memory, tile)
        first = index * lanes
        for lane in range(lanes):
            out[first + lane] = values[tile, lane] - zero_point


@compiled_part
def _read_fields(param: Array, written: Array, places: Array, out: Array) -> None:
    """Read one 16-bit field of every word of a tile: `arithmetic.parameter_field`."""
    channels = param.shape[1]
    rows = len(out) // (len(places) * channels)
    first = 0
    for index in range(len(places)):
        tile = places[index] // FIELDS_PER_WORD
        if not written[tile]:
            raise TileFault(_PARAM, tile)
        left = _FIELD_UNUSED - IMMEDIATE_BITS * (places[index] % FIELDS_PER_WORD)
        for _ in range(rows):
            for channel in range(channels):
                out[first + channel] = (param[tile, channel] << left) >> _FIELD_UNUSED
            first += channels


@compiled_part
def _combine(op: int, x: Array, y: Array, inp_bits: int) -> None:
    """Replace x by x op y: `arithmetic.combine`."""
    if op == _ADD:
        for lane in range(len(x)):
            x[lane] = min(max(x[lane] + y[lane], _LANE_LOW), _LANE_HIGH)
    elif op == _SUB:
        for lane in range(len(x)):
            x[lane] = min(max(x[lane] - y[lane], _LANE_LOW), _LANE_HIGH)
    elif op == _MUL:
        unused = 63 - inp_bits
        for lane in range(len(x)):
            narrow = (x[lane] << unused) >> unused
            field = (y[lane] << _FIELD_UNUSED) >> _FIELD_UNUSED
            x[lane] = min(max(narrow * field, _LANE_LOW), _LANE_HIGH)
    elif op == _MIN:
        for lane in range(len(x)):
            x[lane] = min(x[lane], y[lane])
    elif op == _MAX:
        for lane in range(len(x)):
            x[lane] = max(x[lane], y[lane])


@compiled_part
def _reduce(reduce: int, total: Array, term: Array) -> None:
    """Take one more term into total: `arithmetic.reduce_step`."""
    if reduce == _SUM:
        for lane in range(len(total)):
            total[lane] = min(max(total[lane] + term[lane], _LANE_LOW), _LANE_HIGH)
    elif reduce == _LEAST:
        for lane in range(len(total)):
            total[lane] = min(total[lane], term[lane])
    elif reduce == _GREATEST:
        for lane in range(len(total)):
            total[lane] = max(total[lane], term[lane])


# --- results --------------------------------------------------------------------------------------


@compiled_part
def _residual_term(y: Array, immediate: int, residual_shift: int, residual: Array) -> None:
    """Set residual: `arithmetic.residual_term`."""
    for lane in range(len(y)):
        residual[lane] = (y[lane] * immediate) << residual_shift


@compiled_part
def _requantize(
    param: Array, written: Array, tiles: Array, scale: Array, total: Array, residual: Array
) -> None:
    """Scale total by the param words of every tile: `arithmetic.requantize`."""
    channels = scale.shape[1]
    rows = len(total) // (len(tiles) * channels)
    scale_tile = np.int64(-1)
    first = 0
    for index in range(len(tiles)):
        if tiles[index] != scale_tile:
            scale_tile = tiles[index]
            if not written[scale_tile]:
                raise TileFault(_PARAM, scale_tile)
            _unpack_scale(param[scale_tile], scale)
        for _ in range(rows):
            for channel in range(channels):
                lane = first + channel
                exact = (total[lane] + scale[0, channel]) * scale[1, channel] + residual[lane]
                shift = scale[2, channel]
                odd = (exact >> shift) & scale[4, channel]
                rounded = (exact + scale[3, channel] + odd) >> shift
                total[lane] = min(max(rounded, _LANE_LOW), _LANE_HIGH)
            first += channels


@compiled_part
def _unpack_scale(words: Array, scale: Array) -> None:
    """Set bias, multiplier, shift, and what half to even adds: a constant, and a mask of the floor.

    `arithmetic.unpack_parameters`, and of `arithmetic.half_even_shift` what no value changes.
    """
    for channel in range(len(words)):
        word = words[channel]
        shift = (word >> _SHIFT_AT) & 0xFF
        if shift > SHIFT_MAX:
            raise ShiftFault(shift)
        scale[0, channel] = (word << _BIAS_UNUSED) >> _BIAS_UNUSED
        scale[1, channel] = (word << (64 - _SHIFT_AT)) >> _MULTIPLIER_UNUSED
        scale[2, channel] = shift
        scale[3, channel] = (np.int64(1) << (shift - 1)) - 1 if shift > 0 else 0
        scale[4, channel] = 1 if shift > 0 else 0


@compiled_part
def _saturate(total: Array, bits: int) -> None:
    """Limit total to `bits` bits: `arithmetic.saturate`."""
    limit = np.int64(1) << (bits - 1)
    for lane in range(len(total)):
        total[lane] = min(max(total[lane], -limit), limit - 1)


@compiled_part
def _quantized_output(total: Array, zero_point: int, low: int, high: int) -> None:
    """Shift and clip total: `arithmetic.quantized_output`."""
    for lane in range(len(total)):
        total[lane] = min(max(total[lane] + zero_point, low), high)


@compiled_part
def _look_up(lut: Array, written: Array, base: int, total: Array) -> None:
    """Replace total by entries of a table: `arithmetic.table_entry`."""
    for lane in range(len(total)):
        entry = base + (total[lane] & 0xFF)
        if not written[entry]:
            raise TileFault(_LUT, entry)
        total[lane] = lut[entry, 0]


@compiled_part
def _write(values: Array, written: Array, tiles: Array, total: Array) -> None:
    lanes = values.shape[1]
    for index in range(len(tiles)):
        tile = tiles[index]
        written[tile] = True
        for lane in range(lanes):
            values[tile, lane] = total[index * lanes + lane]
