"""Meaning of the vector unit: one pass over tiles, as `accel.arithmetic` states each step."""

from __future__ import annotations

import numpy as np

from codesign.accel import arithmetic
from codesign.accel.arithmetic import FIELDS_PER_WORD, Integers, Parameters
from codesign.accel.config import VECTOR_LOOPS, AccelConfig, Memory
from codesign.accel.footprint import DESTINATION_MEMORY, X_MEMORY, Y_MEMORY
from codesign.accel.isa import Destination, Vector, VectorOp, XSource, YSource
from codesign.sim.state import Indices, Scratchpads, tile_indices


def vector(instruction: Vector, config: AccelConfig, state: Scratchpads) -> None:
    """Execute one vector instruction.

    All operands are read before anything is written; the rules of `accel.legality` make this equal
    to the order of the loops.
    """
    x_tiles = _indices(instruction, instruction.x, instruction.x_strides)
    y_places = _indices(instruction, instruction.y, instruction.y_strides)
    total = _term(instruction, config, state, x_tiles[:, 0], y_places[:, 0])
    for step in range(1, x_tiles.shape[1]):
        term = _term(instruction, config, state, x_tiles[:, step], y_places[:, step])
        total = arithmetic.reduce_step(instruction.reduce, total, term)
    if instruction.requantize:
        total = _requantized(instruction, state, total, y_places[:, 0])
    dst_tiles = _indices(instruction, instruction.dst, instruction.dst_strides)[:, 0]
    result = _finished(instruction, config, state, total)
    state.write(DESTINATION_MEMORY[instruction.destination], dst_tiles, result)


def _indices(instruction: Vector, base: int, strides: tuple[int, ...]) -> Indices:
    """Return indices as int64[(outer iterations, reducing iterations)]."""
    indices = tile_indices(base, instruction.extents, strides)
    inner = instruction.extents[VECTOR_LOOPS - instruction.reduce_loops :]
    return indices.reshape(-1, int(np.prod(inner, dtype=np.int64)))


def _term(
    instruction: Vector,
    config: AccelConfig,
    state: Scratchpads,
    x_tiles: Indices,
    y_places: Indices,
) -> Integers:
    x = state.read(X_MEMORY[instruction.x_source], x_tiles).astype(np.int64)
    if instruction.x_source is XSource.VEC:
        x -= instruction.vec_zero_point
    if instruction.op is VectorOp.PASS:
        return x
    y = _y(instruction, state, y_places)
    return arithmetic.combine(instruction.op, x, y, config.inp_bits)


def _y(instruction: Vector, state: Scratchpads, places: Indices) -> Integers:
    """Return operand y, broadcastable to int64[(iterations, batch, block_out)]."""
    match instruction.y_source:
        case YSource.IMMEDIATE:
            return np.full((1, 1, 1), instruction.immediate, np.int64)
        case YSource.PARAM:
            words = state.read(Memory.PARAM, places // FIELDS_PER_WORD)
            fields = arithmetic.parameter_field(words, (places % FIELDS_PER_WORD)[:, None])
            return fields[:, None, :]
        case YSource.ACC:
            return state.read(Y_MEMORY[YSource.ACC], places).astype(np.int64)
        case YSource.VEC:
            tiles = state.read(Y_MEMORY[YSource.VEC], places).astype(np.int64)
            return tiles - instruction.vec_zero_point


def _requantized(
    instruction: Vector, state: Scratchpads, total: Integers, y_places: Indices
) -> Integers:
    q_tiles = _indices(instruction, instruction.q, instruction.q_strides)[:, 0]
    words = state.read(Memory.PARAM, q_tiles)
    bias, multiplier, shift = (each[:, None, :] for each in arithmetic.unpack_parameters(words))
    parameters = Parameters(bias, multiplier, shift)
    if not instruction.residual:
        return arithmetic.requantize(total, parameters)
    y = _y(instruction, state, y_places)
    residual = arithmetic.residual_term(y, instruction.immediate, instruction.residual_shift)
    return arithmetic.requantize(total, parameters, residual)


def _finished(
    instruction: Vector, config: AccelConfig, state: Scratchpads, total: Integers
) -> Integers:
    if instruction.destination is Destination.ACC:
        return arithmetic.saturate(total, config.acc_bits)
    result = arithmetic.quantized_output(
        total, instruction.zero_point, instruction.low, instruction.high
    )
    if not instruction.lookup:
        return result
    entries = state.read(Memory.LUT, instruction.lut_base + arithmetic.table_entry(result))
    return entries[..., 0].astype(np.int64)
