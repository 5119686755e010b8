"""The vector unit as machine code: one loop over iterations and lanes, exact at every step.

`codesign.accel.arithmetic` defines every rule; each is stated here once more, for all the lanes of
a tile. Lanes are int64: sums of 33 bits, products of 57 and sums with a residual of 58 are exact.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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
from codesign.sim.functional_compiled import NONE, SHIFT, Fault, Pads, advance, compiled

_ADD: Final = int(VectorOp.ADD)
_SUB: Final = int(VectorOp.SUB)
_MUL: Final = int(VectorOp.MUL)
_MIN: Final = int(VectorOp.MIN)
_MAX: Final = int(VectorOp.MAX)
_SUM: Final = int(Reduce.SUM)
_LEAST: Final = int(Reduce.MIN)
_GREATEST: Final = int(Reduce.MAX)
_X_ACC: Final = int(XSource.ACC)
_IMMEDIATE: Final = int(YSource.IMMEDIATE)
_PARAM: Final = int(YSource.PARAM)
_Y_ACC: Final = int(YSource.ACC)

_ACC_MEMORY: Final = int(Memory.ACC)
_VEC_MEMORY: Final = int(Memory.VEC)
_PARAM_MEMORY: Final = int(Memory.PARAM)
_LUT_MEMORY: Final = int(Memory.LUT)

_BIAS_UNUSED: Final = 64 - LANE_BITS
_MULTIPLIER_UNUSED: Final = 64 - MULTIPLIER_BITS
_SHIFT_AT: Final = LANE_BITS + MULTIPLIER_BITS
_FIELD_UNUSED: Final = 64 - IMMEDIATE_BITS

_X: Final = 0
_Y: Final = 1
_Q: Final = 2
_DST: Final = 3
"""Operands in the order of `places`."""


class Work(NamedTuple):
    """The numbers of a vector instruction, and what of the configuration its result depends on.

    `iterations` are those of all loops, of which `inner` consecutive ones reduce to one result.
    """

    iterations: int
    inner: int
    op: int
    reduce: int
    x_source: int
    y_source: int
    reads_y: int
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


@compiled
def run(work: Work, loops: Array, bases: Array, pads: Pads) -> Fault:
    """Execute one vector instruction of tiles within the memories.

    `loops` are the extents and the strides of x, y, q and the destination; `bases` their first
    places.
    """
    lanes = pads.acc.shape[1]
    counters = np.zeros(loops.shape[1], np.int64)
    places = bases.copy()
    term, y, total = np.empty(lanes, np.int64), np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    scale = np.empty((5, pads.param.shape[1]), np.int64)
    scale_tile = np.int64(-1)
    y[:] = work.immediate
    phase = 0
    for _ in range(work.iterations):
        fault = _read_x(work, pads, places[_X], term)
        if fault[0] != NONE:
            return fault
        if work.reads_y and work.y_source != _IMMEDIATE:
            fault = _read_y(work, pads, places[_Y], y)
            if fault[0] != NONE:
                return fault
        _combine(work, term, y)
        if phase == 0:
            total[:] = term
        else:
            _reduce(work, total, term)
        phase += 1
        if phase == work.inner:
            phase = 0
            if work.requantize:
                if places[_Q] != scale_tile:
                    scale_tile = places[_Q]
                    fault = _read_scale(pads, scale_tile, scale)
                    if fault[0] != NONE:
                        return fault
                _requantize(work, total, scale, y)
            fault = _write(work, pads, places[_DST], total)
            if fault[0] != NONE:
                return fault
        advance(counters, loops, places)
    return NONE, 0


@compiled
def _read_x(work: Work, pads: Pads, tile: int, x: Array) -> Fault:
    if work.x_source == _X_ACC:
        if not pads.acc_written[tile]:
            return _ACC_MEMORY, tile
        for lane in range(len(x)):
            x[lane] = pads.acc[tile, lane]
        return NONE, 0
    if not pads.vec_written[tile]:
        return _VEC_MEMORY, tile
    for lane in range(len(x)):
        x[lane] = pads.vec[tile, lane] - work.vec_zero_point
    return NONE, 0


@compiled
def _read_y(work: Work, pads: Pads, place: int, y: Array) -> Fault:
    if work.y_source == _PARAM:
        tile = place // FIELDS_PER_WORD
        if not pads.param_written[tile]:
            return _PARAM_MEMORY, tile
        left = _FIELD_UNUSED - IMMEDIATE_BITS * (place % FIELDS_PER_WORD)
        channels = pads.param.shape[1]
        for first in range(0, len(y), channels):
            for channel in range(channels):
                y[first + channel] = (pads.param[tile, channel] << left) >> _FIELD_UNUSED
        return NONE, 0
    if work.y_source == _Y_ACC:
        if not pads.acc_written[place]:
            return _ACC_MEMORY, place
        for lane in range(len(y)):
            y[lane] = pads.acc[place, lane]
        return NONE, 0
    if not pads.vec_written[place]:
        return _VEC_MEMORY, place
    for lane in range(len(y)):
        y[lane] = pads.vec[place, lane] - work.vec_zero_point
    return NONE, 0


@compiled
def _saturate(value: int, bits: int) -> int:
    limit = np.int64(1) << (bits - 1)
    return min(max(value, -limit), limit - 1)


@compiled
def _combine(work: Work, x: Array, y: Array) -> None:
    """Replace x by x op y: `arithmetic.combine`."""
    if work.op == _ADD:
        for lane in range(len(x)):
            x[lane] = _saturate(x[lane] + y[lane], LANE_BITS)
    elif work.op == _SUB:
        for lane in range(len(x)):
            x[lane] = _saturate(x[lane] - y[lane], LANE_BITS)
    elif work.op == _MUL:
        unused = 63 - work.inp_bits
        for lane in range(len(x)):
            narrow = (x[lane] << unused) >> unused
            field = (y[lane] << _FIELD_UNUSED) >> _FIELD_UNUSED
            x[lane] = _saturate(narrow * field, LANE_BITS)
    elif work.op == _MIN:
        for lane in range(len(x)):
            x[lane] = min(x[lane], y[lane])
    elif work.op == _MAX:
        for lane in range(len(x)):
            x[lane] = max(x[lane], y[lane])


@compiled
def _reduce(work: Work, total: Array, term: Array) -> None:
    """Add one more term: `arithmetic.reduce_step`."""
    if work.reduce == _SUM:
        for lane in range(len(total)):
            total[lane] = _saturate(total[lane] + term[lane], LANE_BITS)
    elif work.reduce == _LEAST:
        for lane in range(len(total)):
            total[lane] = min(total[lane], term[lane])
    elif work.reduce == _GREATEST:
        for lane in range(len(total)):
            total[lane] = max(total[lane], term[lane])


@compiled
def _read_scale(pads: Pads, tile: int, scale: Array) -> Fault:
    """Unpack param words: bias, multiplier, shift, half of the shift's divisor less 1, odd's mask.

    The last two make `arithmetic.half_even_shift` one addition and one shift.
    """
    if not pads.param_written[tile]:
        return _PARAM_MEMORY, tile
    worst = np.int64(0)
    for channel in range(scale.shape[1]):
        word = pads.param[tile, channel]
        shift = (word >> _SHIFT_AT) & 0xFF
        worst = max(worst, shift)
        scale[0, channel] = (word << _BIAS_UNUSED) >> _BIAS_UNUSED
        scale[1, channel] = (word << (64 - _SHIFT_AT)) >> _MULTIPLIER_UNUSED
        scale[2, channel] = shift
        scale[3, channel] = ((np.int64(1) << shift) >> 1) - 1 if shift > 0 else 0
        scale[4, channel] = 1 if shift > 0 else 0
    if worst > SHIFT_MAX:
        return SHIFT, worst
    return NONE, 0


@compiled
def _requantize(work: Work, total: Array, scale: Array, y: Array) -> None:
    """Scale what the reducing loops hold: `arithmetic.requantize`, `arithmetic.residual_term`."""
    channels = scale.shape[1]
    for first in range(0, len(total), channels):
        if work.residual:
            for channel in range(channels):
                residual = (y[first + channel] * work.immediate) << work.residual_shift
                exact = (total[first + channel] + scale[0, channel]) * scale[1, channel]
                total[first + channel] = exact + residual
        else:
            for channel in range(channels):
                exact = (total[first + channel] + scale[0, channel]) * scale[1, channel]
                total[first + channel] = exact
        for channel in range(channels):
            exact = total[first + channel]
            shift = scale[2, channel]
            odd = (exact >> shift) & scale[4, channel]
            total[first + channel] = _saturate(
                (exact + scale[3, channel] + odd) >> shift, LANE_BITS
            )


@compiled
def _write(work: Work, pads: Pads, tile: int, total: Array) -> Fault:
    """Finish one result and write it: `arithmetic.quantized_output`, `arithmetic.table_entry`."""
    if work.to_acc:
        pads.acc_written[tile] = True
        for lane in range(len(total)):
            pads.acc[tile, lane] = _saturate(total[lane], work.acc_bits)
        return NONE, 0
    pads.out_written[tile] = True
    if not work.lookup:
        for lane in range(len(total)):
            pads.out[tile, lane] = min(max(total[lane] + work.zero_point, work.low), work.high)
        return NONE, 0
    for lane in range(len(total)):
        byte = min(max(total[lane] + work.zero_point, work.low), work.high) & 0xFF
        entry = work.lut_base + byte
        if not pads.lut_written[entry]:
            return _LUT_MEMORY, entry
        pads.out[tile, lane] = pads.lut[entry, 0]
    return NONE, 0
