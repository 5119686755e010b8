"""Meaning of gemm: tile products summed into accumulators.

Two ways to one answer. Where sums are modulo 2**32 and no accumulator is visited twice by the loops
that do not reduce, the order of additions does not matter and the products are matrix products in
floating point, cut so that every partial sum is an exact integer. Elsewhere a loop follows the
instruction's definition step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import GEMM_LOOPS, AccelConfig, Memory
from codesign.accel.footprint import visits_once
from codesign.accel.isa import Gemm
from codesign.dtypes import Array
from codesign.sim.state import Indices, Scratchpads, tile_indices

FLOAT32_EXACT_BITS: Final = 24
"""Integers up to 2**24 in magnitude are exact in float32."""

LEAST_FLOAT32_TERMS: Final = 256
"""With fewer exact terms than this to a partial sum, float64 is used."""


def gemm(instruction: Gemm, config: AccelConfig, state: Scratchpads) -> int:
    """Execute one gemm; return how many additions saturated."""
    kept = [loop for loop in range(GEMM_LOOPS) if not instruction.reduce >> loop & 1]
    extents = [instruction.extents[loop] for loop in kept]
    strides = [instruction.acc_strides[loop] for loop in kept]
    if config.acc_bits == 32 and visits_once(extents, strides):
        _as_matrices(instruction, kept, config, state)
        return 0
    return _step_by_step(instruction, config, state)


# --- matrix products ------------------------------------------------------------------------------


def _as_matrices(
    instruction: Gemm, kept: Sequence[int], config: AccelConfig, state: Scratchpads
) -> None:
    """Compute acc[group, position, channel] of inp[group, position, k], wgt[group, channel, k].

    Loops that move both operands are groups, those that move only inp are positions, those that
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
    inp_tiles = _indices(instruction, "inp", groups, positions, reducing)
    wgt_tiles = _indices(instruction, "wgt", groups, channels, reducing)
    acc_tiles = _indices(instruction, "acc", groups, positions, channels)
    rows = state.read(Memory.INP, inp_tiles)
    columns = state.read(Memory.WGT, wgt_tiles)
    products = _exact_product(rows, columns, config)
    if instruction.accumulate:
        products = products + state.read(Memory.ACC, acc_tiles)
    state.write(Memory.ACC, acc_tiles, products.astype(np.int32))


def _indices(instruction: Gemm, operand: str, *parts: Sequence[int]) -> Indices:
    loops = [loop for part in parts for loop in part]
    strides = getattr(instruction, f"{operand}_strides")
    extents = [instruction.extents[loop] for loop in loops]
    indices = tile_indices(
        getattr(instruction, operand), extents, [strides[loop] for loop in loops]
    )
    sizes = [int(np.prod([instruction.extents[loop] for loop in part])) for part in parts]
    return indices.reshape(sizes)


def _exact_product(rows: Array, columns: Array, config: AccelConfig) -> NDArray[np.int64]:
    """Return products [g, p, c, n, o]: sums over k and i of rows times columns."""
    groups, positions, terms, batch, block_in = rows.shape
    channels, block_out = columns.shape[1], columns.shape[3]
    left = rows.transpose(0, 1, 3, 2, 4).reshape(groups, positions * batch, terms * block_in)
    right = columns.transpose(0, 1, 3, 2, 4).reshape(groups, channels * block_out, -1)
    product_bits = config.inp_bits + config.wgt_bits - 2
    exact_terms = 1 << max(0, FLOAT32_EXACT_BITS - product_bits)
    dtype: Any = np.float32
    if exact_terms < LEAST_FLOAT32_TERMS:
        dtype, exact_terms = np.float64, 1 << 20
    total = np.zeros((groups, positions * batch, channels * block_out), np.int64)
    for start in range(0, terms * block_in, exact_terms):
        part = slice(start, start + exact_terms)
        partial = np.matmul(
            left[..., part].astype(dtype), right[..., part].astype(dtype).transpose(0, 2, 1)
        )
        total += partial.astype(np.int64)
    shaped = total.reshape(groups, positions, batch, channels, block_out)
    return shaped.transpose(0, 1, 3, 2, 4)


# --- step by step ---------------------------------------------------------------------------------


def _step_by_step(instruction: Gemm, config: AccelConfig, state: Scratchpads) -> int:
    extents = instruction.extents
    acc_tiles = tile_indices(instruction.acc, extents, instruction.acc_strides)
    inp_tiles = tile_indices(instruction.inp, extents, instruction.inp_strides)
    wgt_tiles = tile_indices(instruction.wgt, extents, instruction.wgt_strides)
    first = np.ones(extents, np.bool_)
    for loop in range(GEMM_LOOPS):
        if instruction.reduce >> loop & 1:
            counter = np.arange(extents[loop])
            shape = [-1 if axis == loop else 1 for axis in range(GEMM_LOOPS)]
            first &= (counter == 0).reshape(shape)
    overwrites = first & (not instruction.accumulate)
    state.read(Memory.INP, inp_tiles.ravel())
    state.read(Memory.WGT, wgt_tiles.ravel())
    fresh = acc_tiles[overwrites].ravel()
    state.write(Memory.ACC, fresh, state.whole(Memory.ACC)[fresh])
    state.read(Memory.ACC, acc_tiles.ravel())
    return int(
        _accumulate_tiles(
            state.whole(Memory.ACC),
            state.whole(Memory.INP),
            state.whole(Memory.WGT),
            acc_tiles.ravel(),
            inp_tiles.ravel(),
            wgt_tiles.ravel(),
            overwrites.ravel(),
            config.acc_bits,
        )
    )


@numba.njit(cache=True)  # type: ignore[untyped-decorator]  # Numba's decorator has no types
def _accumulate_tiles(
    acc: NDArray[np.int32],
    inp: Array,
    wgt: Array,
    acc_tiles: Indices,
    inp_tiles: Indices,
    wgt_tiles: Indices,
    overwrites: NDArray[np.bool_],
    acc_bits: int,
) -> int:
    _, batch, block_in = inp.shape
    block_out = wgt.shape[1]
    limit = 1 << (acc_bits - 1)
    saturated = 0
    for step in range(len(acc_tiles)):
        tile, row, column = acc_tiles[step], inp_tiles[step], wgt_tiles[step]
        for n in range(batch):
            for o in range(block_out):
                total = np.int64(0)
                for i in range(block_in):
                    total += np.int64(inp[row, n, i]) * np.int64(wgt[column, o, i])
                if not overwrites[step]:
                    total += np.int64(acc[tile, n, o])
                if acc_bits < 32:
                    if total < -limit:
                        total = np.int64(-limit)
                        saturated += 1
                    elif total >= limit:
                        total = np.int64(limit - 1)
                        saturated += 1
                acc[tile, n, o] = np.int32(total & 0xFFFFFFFF)
    return saturated
