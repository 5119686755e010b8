"""The vector unit from the rules of `codesign.accel.arithmetic`, one NumPy call a rule.

The oracle of the simulator's compiled loops: it shares no code with `codesign.sim`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from codesign.accel import arithmetic
from codesign.accel.arithmetic import FIELDS_PER_WORD, Integers, Parameters
from codesign.accel.config import VECTOR_LOOPS, AccelConfig, Memory
from codesign.accel.isa import Destination, Vector, VectorOp, XSource, YSource
from codesign.dtypes import Array

Tiles = Mapping[Memory, Array]


def execute(vector: Vector, config: AccelConfig, tiles: Tiles) -> None:
    """Execute an instruction; all operands are read before anything is written."""
    x_places = _places(vector, vector.x, vector.x_strides)
    y_places = _places(vector, vector.y, vector.y_strides)
    total = _term(vector, config, tiles, x_places[:, 0], y_places[:, 0])
    for step in range(1, x_places.shape[1]):
        term = _term(vector, config, tiles, x_places[:, step], y_places[:, step])
        total = arithmetic.reduce_step(vector.reduce, total, term)
    if vector.requantize:
        total = _requantized(vector, tiles, total, y_places[:, 0])
    dst = _places(vector, vector.dst, vector.dst_strides)[:, 0]
    memory = Memory.ACC if vector.destination is Destination.ACC else Memory.OUT
    for place, result in zip(dst, _finished(vector, config, tiles, total), strict=True):
        tiles[memory][place] = result


def _places(vector: Vector, base: int, strides: Sequence[int]) -> Integers:
    """Return int64[(outer iterations, reducing iterations)]."""
    split = VECTOR_LOOPS - vector.reduce_loops
    every = [
        base + sum(counter * stride for counter, stride in zip(counters, strides, strict=True))
        for counters in itertools.product(*map(range, vector.extents))
    ]
    return np.array(every, np.int64).reshape(int(np.prod(vector.extents[:split])), -1)


def _term(
    vector: Vector, config: AccelConfig, tiles: Tiles, x_places: Integers, y_places: Integers
) -> Integers:
    if vector.x_source is XSource.ACC:
        x = tiles[Memory.ACC][x_places].astype(np.int64)
    else:
        x = tiles[Memory.VEC][x_places].astype(np.int64) - vector.vec_zero_point
    if vector.op is VectorOp.PASS:
        return x
    return arithmetic.combine(vector.op, x, _y(vector, tiles, y_places), config.inp_bits)


def _y(vector: Vector, tiles: Tiles, places: Integers) -> Integers:
    match vector.y_source:
        case YSource.IMMEDIATE:
            return np.full((1, 1, 1), vector.immediate, np.int64)
        case YSource.PARAM:
            words = tiles[Memory.PARAM][places // FIELDS_PER_WORD]
            return arithmetic.parameter_field(words, (places % FIELDS_PER_WORD)[:, None])[:, None]
        case YSource.ACC:
            return tiles[Memory.ACC][places].astype(np.int64)
        case YSource.VEC:
            return tiles[Memory.VEC][places].astype(np.int64) - vector.vec_zero_point


def _requantized(vector: Vector, tiles: Tiles, total: Integers, y_places: Integers) -> Integers:
    words = tiles[Memory.PARAM][_places(vector, vector.q, vector.q_strides)[:, 0]]
    parameters = Parameters(*(each[:, None] for each in arithmetic.unpack_parameters(words)))
    if not vector.residual:
        return arithmetic.requantize(total, parameters)
    y = _y(vector, tiles, y_places)
    residual = arithmetic.residual_term(y, vector.immediate, vector.residual_shift)
    return arithmetic.requantize(total, parameters, residual)


def _finished(vector: Vector, config: AccelConfig, tiles: Tiles, total: Integers) -> Integers:
    if vector.destination is Destination.ACC:
        return arithmetic.saturate(total, config.acc_bits)
    result = arithmetic.quantized_output(total, vector.zero_point, vector.low, vector.high)
    if not vector.lookup:
        return result
    entries = tiles[Memory.LUT][vector.lut_base + arithmetic.table_entry(result)]
    return entries[..., 0].astype(np.int64)
