"""Meaning of gemm: tile products summed into accumulators.

Two ways to one answer. Where sums are modulo 2**32 and no accumulator is visited twice by the loops
that do not reduce, the order of additions does not matter and the products are matrix products in
floating point, cut so that every partial sum is an exact integer. Elsewhere a loop follows the
instruction's definition step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, final

import numpy as np

from codesign.accel.config import GEMM_LOOPS, AccelConfig, Memory
from codesign.accel.footprint import visits_once
from codesign.accel.isa import Gemm
from codesign.dtypes import Array
from codesign.sim import functional_tiles
from codesign.sim.functional_compiled import faults_named
from codesign.sim.state import Indices, Scratchpads, tile_indices

FLOAT32_EXACT_BITS: Final = 24
"""Integers up to 2**24 in magnitude are exact in float32."""

LEAST_FLOAT32_TERMS: Final = 256
"""With fewer exact terms than this to a partial sum, float64 is used."""

FLOAT64_EXACT_TERMS: Final = 1 << 20
"""Products of 22 bits, the widest, keep this many within 2**53."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class MatrixStep:
    """A gemm as matrix products: sums over terms of inp[group, position] times wgt[group, channel].

    A tile of inp or wgt is the sum of its place by group and position or channel, int64[(groups,
    positions or channels)], and of its place by term, int64[(terms)]; a tile of acc that of its
    place by group and position and of its place by channel.
    """

    accumulate: bool
    inp: Indices
    inp_terms: Indices
    wgt: Indices
    wgt_terms: Indices
    acc: Indices
    acc_channels: Indices


@final
@dataclass(frozen=True, slots=True, eq=False)
class TileStep:
    """A gemm as `functional_tiles.accumulate` takes it."""

    iterations: int
    reduces: Array
    loops: Indices
    bases: Indices
    accumulate: bool


def prepare(instruction: Gemm, config: AccelConfig) -> MatrixStep | TileStep:
    """Return an instruction whose tiles lie within the memories, ready to run."""
    kept = [loop for loop in range(GEMM_LOOPS) if not instruction.reduce >> loop & 1]
    extents = [instruction.extents[loop] for loop in kept]
    strides = [instruction.acc_strides[loop] for loop in kept]
    if config.acc_bits == 32 and visits_once(extents, strides):
        return _as_matrices(instruction, kept)
    return _tile_by_tile(instruction)


def gemm(step: MatrixStep | TileStep, config: AccelConfig, state: Scratchpads) -> int:
    """Execute one gemm; return how many additions saturated."""
    with faults_named():
        if isinstance(step, MatrixStep):
            _multiply(step, config, state)
            return 0
        return _step_by_step(step, config, state)


# --- matrix products ------------------------------------------------------------------------------


def _as_matrices(instruction: Gemm, kept: Sequence[int]) -> MatrixStep:
    """Sort the loops.

    Those that move both operands are groups, those that move only inp are positions, those that
    move at most wgt are channels.
    """
    moving = [loop for loop in range(GEMM_LOOPS) if instruction.extents[loop] > 1]
    reducing = [loop for loop in moving if loop not in kept]
    groups, positions, channels = [], [], []
    for loop in (loop for loop in moving if loop in kept):
        if not instruction.inp_strides[loop]:
            channels.append(loop)
        elif instruction.wgt_strides[loop]:
            groups.append(loop)
        else:
            positions.append(loop)

    def tiles(base: int, strides: Sequence[int], *parts: Sequence[int]) -> Indices:
        loops = [loop for part in parts for loop in part]
        extents = [instruction.extents[loop] for loop in loops]
        sizes = [prod(instruction.extents[loop] for loop in part) for part in parts]
        return tile_indices(base, extents, [strides[loop] for loop in loops]).reshape(sizes)

    return MatrixStep(
        accumulate=instruction.accumulate,
        inp=tiles(instruction.inp, instruction.inp_strides, groups, positions),
        inp_terms=tiles(0, instruction.inp_strides, reducing),
        wgt=tiles(instruction.wgt, instruction.wgt_strides, groups, channels),
        wgt_terms=tiles(0, instruction.wgt_strides, reducing),
        acc=tiles(instruction.acc, instruction.acc_strides, groups, positions),
        acc_channels=tiles(0, instruction.acc_strides, channels),
    )


def _multiply(step: MatrixStep, config: AccelConfig, state: Scratchpads) -> None:
    floating, integer, exact_terms = _exact_types(config)
    accumulate = step.accumulate
    part = max(1, exact_terms // config.block_in)
    for first in range(0, len(step.inp_terms), part):
        terms = slice(first, first + part)
        left = _matrix(Memory.INP, step.inp, step.inp_terms[terms], floating, state)
        right = _matrix(Memory.WGT, step.wgt, step.wgt_terms[terms], floating, state)
        products = np.matmul(left, right.transpose(0, 2, 1)).astype(integer)
        shape = (step.acc.size, config.batch, len(step.acc_channels), config.block_out)
        functional_tiles.scatter(
            state.whole(Memory.ACC),
            state.written(Memory.ACC),
            step.acc.ravel(),
            step.acc_channels,
            products.reshape(shape),
            accumulate,
        )
        accumulate = True


def _exact_types(config: AccelConfig) -> tuple[Any, Any, int]:
    """Return the type of products, that of their integers, and the terms that are exact in it."""
    product_bits = config.inp_bits + config.wgt_bits - 2
    exact_terms = 1 << max(0, FLOAT32_EXACT_BITS - product_bits)
    if exact_terms < LEAST_FLOAT32_TERMS:
        return np.float64, np.int64, FLOAT64_EXACT_TERMS
    return np.float32, np.int32, exact_terms


def _matrix(
    memory: Memory, tiles: Indices, terms: Indices, floating: Any, state: Scratchpads
) -> Array:
    """Return [group, (tile, row of the tile), (term, column of the tile)]."""
    values = state.whole(memory)
    groups, outer = tiles.shape
    _, rows, columns = values.shape
    matrix = np.empty((groups * outer, rows, len(terms), columns), floating)
    functional_tiles.gather(
        int(memory), values, state.written(memory), tiles.ravel(), terms, matrix
    )
    return matrix.reshape(groups, outer * rows, len(terms) * columns)


# --- step by step ---------------------------------------------------------------------------------


def _tile_by_tile(instruction: Gemm) -> TileStep:
    return TileStep(
        iterations=prod(instruction.extents),
        reduces=np.array([instruction.reduce >> loop & 1 for loop in range(GEMM_LOOPS)], np.bool_),
        loops=np.array(
            (
                instruction.extents,
                instruction.inp_strides,
                instruction.wgt_strides,
                instruction.acc_strides,
            ),
            np.int64,
        ),
        bases=np.array((instruction.inp, instruction.wgt, instruction.acc), np.int64),
        accumulate=instruction.accumulate,
    )


def _step_by_step(step: TileStep, config: AccelConfig, state: Scratchpads) -> int:
    pads = functional_tiles.TilePads(
        state.whole(Memory.INP),
        state.whole(Memory.WGT),
        state.whole(Memory.ACC),
        state.written(Memory.INP),
        state.written(Memory.WGT),
        state.written(Memory.ACC),
    )
    return functional_tiles.accumulate(
        step.iterations,
        step.loops,
        step.bases,
        step.reduces,
        step.accumulate,
        config.acc_bits,
        pads,
    )
