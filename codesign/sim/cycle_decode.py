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
from codesign.sim import cycle_core as core


def instruction_table(
    instructions: Sequence[Instruction], config: AccelConfig, bases: Sequence[int]
) -> Array:
    """Return int64[(instruction, column)] with the columns of `cycle_core`.

    `bases` are the byte addresses of the segments.
    """
    rows = [_row(each, config, bases) for each in instructions]
    return np.array(rows, dtype=np.int64).reshape(len(rows), core.COLUMNS)


def _row(each: Instruction, config: AccelConfig, bases: Sequence[int]) -> list[int]:
    row = [0] * core.COLUMNS
    row[core.ACTOR] = core.ACTOR_OF_UNIT[each.unit]
    row[core.WAIT] = _mask(each.wait)
    row[core.PUSH] = _mask(each.push)
    row[core.BANK] = -1
    match each:
        case Sync():
            row[core.IS_SYNC] = 1
        case Load():
            row[core.PADS] = padding_tiles(each)
            _fill_box(row, each, config, each.memory, bases)
        case Store():
            _fill_box(row, each, config, Memory.OUT, bases)
        case Gemm():
            row[core.ISSUES] = prod(each.extents)
            row[core.BANK] = each.acc // config.acc_bank_depth
        case Vector():
            row[core.ISSUES] = prod(each.extents) * config.vector_passes
            row[core.BANK] = _vector_bank(each, config)
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
    row[core.ADDRESS] = bases[each.segment] + each.address * config.bus_bytes
    row[core.ROWS_Z], row[core.ROWS_Y], tiles = each.size
    row[core.ROW_BEATS] = tiles * config.beats(memory)
    row[core.STRIDE_Z] = each.stride[0] * config.bus_bytes
    row[core.STRIDE_Y] = each.stride[1] * config.bus_bytes


def _vector_bank(each: Vector, config: AccelConfig) -> int:
    """Return the bank of the instruction's accumulators, or -1 where it has none."""
    if each.x_source is XSource.ACC:
        return each.x // config.acc_bank_depth
    if each.y_source is YSource.ACC:
        return each.y // config.acc_bank_depth
    if each.destination is Destination.ACC:
        return each.dst // config.acc_bank_depth
    return -1
