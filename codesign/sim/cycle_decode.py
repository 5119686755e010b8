"""Instructions as a table of the numbers that time depends on, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import assert_never

import numpy as np

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
    XSource,
    YSource,
)
from codesign.dtypes import Array
from codesign.sim import cycle_state


def instruction_table(
    instructions: Sequence[Instruction], config: AccelConfig, bases: Sequence[int]
) -> Array:
    """Return int64[(instruction, column)] with the columns of `cycle_state`.

    `bases` are the byte addresses of the segments.
    """
    rows = [_row(each, config, bases) for each in instructions]
    return np.array(rows, dtype=np.int64).reshape(len(rows), cycle_state.TABLE_COLUMNS)


def _row(each: Instruction, config: AccelConfig, bases: Sequence[int]) -> list[int]:
    row = [0] * cycle_state.TABLE_COLUMNS
    row[cycle_state.ACTOR] = cycle_state.FIRST_UNIT + each.unit
    row[cycle_state.WAIT] = _mask(each.wait)
    row[cycle_state.PUSH] = _mask(each.push)
    row[cycle_state.BANK] = -1
    row[cycle_state.START] = row[cycle_state.END] = -1
    match each:
        case Sync():
            row[cycle_state.IS_SYNC] = 1
        case Load():
            row[cycle_state.PADS] = padding_tiles(each)
            _fill_box(row, each, config, each.memory, bases)
        case Store():
            _fill_box(row, each, config, Memory.OUT, bases)
        case Gemm():
            row[cycle_state.ISSUES] = prod(each.extents)
            row[cycle_state.BANK] = each.acc // config.acc_bank_depth
        case Vector():
            row[cycle_state.ISSUES] = prod(each.extents) * config.vector_passes
            row[cycle_state.BANK] = _vector_bank(each, config)
        case _:
            assert_never(each)
    return row


def padding_tiles(load: Load) -> int:
    """Return the tiles of a load's box that lie in its padding."""
    depth, height, width = load.size
    top, bottom, left, right = load.pad
    return depth * ((height + top + bottom) * (width + left + right) - height * width)


def _mask(units: frozenset[Unit]) -> int:
    return sum(1 << unit for unit in units)


def _fill_box(
    row: list[int], each: Load | Store, config: AccelConfig, memory: Memory, bases: Sequence[int]
) -> None:
    row[cycle_state.ADDRESS] = bases[each.segment] + each.address * config.bus_bytes
    row[cycle_state.ROWS_Z], row[cycle_state.ROWS_Y], tiles = each.size
    row[cycle_state.ROW_BEATS] = tiles * config.beats(memory)
    row[cycle_state.STRIDE_Z] = each.stride[0] * config.bus_bytes
    row[cycle_state.STRIDE_Y] = each.stride[1] * config.bus_bytes


def _vector_bank(each: Vector, config: AccelConfig) -> int:
    """Return the bank of the instruction's accumulators, or -1 where it has none."""
    if each.x_source is XSource.ACC:
        return each.x // config.acc_bank_depth
    if each.y_source is YSource.ACC:
        return each.y // config.acc_bank_depth
    if each.destination is Destination.ACC:
        return each.dst // config.acc_bank_depth
    return -1
