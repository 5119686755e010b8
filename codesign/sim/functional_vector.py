"""Meaning of the vector unit: one pass over tiles, run by `functional_lanes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.accel.config import VECTOR_LOOPS, AccelConfig, Memory
from codesign.accel.footprint import reads_y
from codesign.accel.isa import Destination, Vector, YSource
from codesign.dtypes import Array
from codesign.sim import functional_lanes
from codesign.sim.functional_compiled import faults_named
from codesign.sim.functional_lanes import Pads, Places, Work
from codesign.sim.state import Scratchpads, tile_indices


@final
@dataclass(frozen=True, slots=True, eq=False)
class VectorStep:
    """A vector instruction as `functional_lanes.run` takes it."""

    work: Work
    places: Places


def prepare(instruction: Vector, config: AccelConfig) -> VectorStep:
    """Return an instruction whose tiles lie within the memories, ready to run."""
    y_source = instruction.y_source if reads_y(instruction) else YSource.IMMEDIATE
    work = Work(
        op=int(instruction.op),
        reduce=int(instruction.reduce),
        x_source=int(instruction.x_source),
        y_source=int(y_source),
        to_acc=int(instruction.destination is Destination.ACC),
        requantize=int(instruction.requantize),
        residual=int(instruction.residual),
        lookup=int(instruction.lookup),
        immediate=instruction.immediate,
        residual_shift=instruction.residual_shift,
        vec_zero_point=instruction.vec_zero_point,
        zero_point=instruction.zero_point,
        low=instruction.low,
        high=instruction.high,
        lut_base=instruction.lut_base,
        inp_bits=config.inp_bits,
        acc_bits=config.acc_bits,
    )
    return VectorStep(work, _places(instruction))


def _places(instruction: Vector) -> Places:
    split = VECTOR_LOOPS - instruction.reduce_loops

    def outer(base: int, strides: Sequence[int]) -> Array:
        return tile_indices(base, instruction.extents[:split], strides[:split])

    def inner(strides: Sequence[int]) -> Array:
        return tile_indices(0, instruction.extents[split:], strides[split:])

    return Places(
        x=outer(instruction.x, instruction.x_strides),
        x_inner=inner(instruction.x_strides),
        y=outer(instruction.y, instruction.y_strides),
        y_inner=inner(instruction.y_strides),
        q=outer(instruction.q, instruction.q_strides),
        dst=outer(instruction.dst, instruction.dst_strides),
    )


def vector(step: VectorStep, pads: Pads) -> None:
    """Execute one vector instruction.

    Some results are written before others are begun; the rules of `accel.legality` make this equal
    to the order of the loops.
    """
    with faults_named():
        functional_lanes.run(step.work, step.places, pads)


def pads_of(state: Scratchpads) -> Pads:
    """Return the scratchpads as the vector unit takes them."""

    def matrix(memory: Memory) -> Array:
        tiles = state.whole(memory)
        return tiles.reshape(len(tiles), -1)

    memories = (Memory.ACC, Memory.VEC, Memory.OUT, Memory.PARAM, Memory.LUT)
    acc, vec, out, param, lut = (matrix(memory) for memory in memories)
    written = [state.written(memory) for memory in memories]
    return Pads(acc, vec, out, param.view(np.int64), lut, *written)
