"""Tile products as machine code: matrices gathered from tiles, and products tile by tile."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from codesign.accel.arithmetic import LANE_BITS
from codesign.accel.config import Memory
from codesign.dtypes import Array
from codesign.sim.functional_compiled import TileFault, compiled, compiled_part

_INP: Final = int(Memory.INP)
_WGT: Final = int(Memory.WGT)
_ACC: Final = int(Memory.ACC)


@compiled
def gather(
    memory: int, values: Array, written: Array, tiles: Array, terms: Array, matrix: Array
) -> None:
    """Set matrix[tile, row, term, column] to element (row, column) of tile `tiles + terms`."""
    _, rows, columns = values.shape
    for outer in range(len(tiles)):
        for inner in range(len(terms)):
            tile = tiles[outer] + terms[inner]
            if not written[tile]:
                raise TileFault(memory, tile)
            for row in range(rows):
                for column in range(columns):
                    matrix[outer, row, inner, column] = values[tile, row, column]


@compiled
def scatter(
    acc: Array, written: Array, tiles: Array, channels: Array, products: Array, adds: bool
) -> None:
    """Set or add products[tile, row, channel, column], modulo 2**32: `arithmetic.accumulate`.

    They belong to element (row, column) of tile `tiles + channels`; no tile occurs twice.
    """
    _, rows, columns = acc.shape
    for outer in range(len(tiles)):
        for inner in range(len(channels)):
            tile = tiles[outer] + channels[inner]
            if adds and not written[tile]:
                raise TileFault(_ACC, tile)
            written[tile] = True
            for row in range(rows):
                for column in range(columns):
                    total = np.int64(products[outer, row, inner, column])
                    if adds:
                        total += acc[tile, row, column]
                    acc[tile, row, column] = np.int32(total)


class TilePads(NamedTuple):
    """The memories of the gemm array, [tile, row, column], and which tiles are written."""

    inp: Any
    wgt: Any
    acc: Any
    inp_written: Any
    wgt_written: Any
    acc_written: Any


@compiled
def accumulate(
    iterations: int,
    loops: Array,
    bases: Array,
    reduces: Array,
    accumulates: bool,
    acc_bits: int,
    pads: TilePads,
) -> int:
    """Execute one gemm of tiles within the memories; return the saturated additions.

    `loops` are the extents and the strides of inp, wgt and acc; `bases` their first tiles.
    """
    counters = np.zeros(loops.shape[1], np.int64)
    places = bases.copy()
    saturated = 0
    for _ in range(iterations):
        inp, wgt, acc = places
        if not pads.inp_written[inp]:
            raise TileFault(_INP, inp)
        if not pads.wgt_written[wgt]:
            raise TileFault(_WGT, wgt)
        adds = accumulates or bool(np.any((counters > 0) & reduces))
        if adds and not pads.acc_written[acc]:
            raise TileFault(_ACC, acc)
        pads.acc_written[acc] = True
        saturated += _add_product(pads.inp[inp], pads.wgt[wgt], pads.acc[acc], adds, acc_bits)
        _advance(counters, loops, places)
    return saturated


@compiled_part
def _add_product(inp: Array, wgt: Array, acc: Array, adds: bool, acc_bits: int) -> int:
    """Set or add the product of two tiles; return how many elements saturated.

    `arithmetic.accumulate` defines the sum.
    """
    limit = np.int64(1) << (acc_bits - 1)
    saturated = 0
    for row in range(acc.shape[0]):
        for column in range(acc.shape[1]):
            total = np.int64(0)
            for term in range(inp.shape[1]):
                total += np.int64(inp[row, term]) * np.int64(wgt[column, term])
            if adds:
                total += acc[row, column]
            if acc_bits < LANE_BITS and not -limit <= total < limit:
                total = min(max(total, -limit), limit - 1)
                saturated += 1
            acc[row, column] = np.int32(total)
    return saturated


@compiled_part
def _advance(counters: Array, loops: Array, places: Array) -> None:
    """Step a loop nest on by one iteration."""
    loop = len(counters) - 1
    while loop >= 0:
        counters[loop] += 1
        if counters[loop] < loops[0, loop]:
            places += loops[1:, loop]
            return
        counters[loop] = 0
        places -= loops[1:, loop] * (loops[0, loop] - 1)
        loop -= 1
