"""Meaning of the vector unit: one pass over tiles, run by `functional_lanes`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np

from codesign.accel.config import VECTOR_LOOPS, AccelConfig, Memory
from codesign.accel.footprint import reads_y
from codesign.accel.isa import SHIFT_MAX, Destination, Vector
from codesign.diagnostics import CodesignError
from codesign.sim import functional_lanes
from codesign.sim.functional_compiled import NONE, SHIFT, Pads
from codesign.sim.functional_lanes import Work
from codesign.sim.state import Indices, unwritten


@final
@dataclass(frozen=True, slots=True, eq=False)
class VectorStep:
    """A vector instruction as `functional_lanes.run` takes it."""

    work: Work
    loops: Indices
    bases: Indices


def prepare(instruction: Vector, config: AccelConfig) -> VectorStep:
    """Return an instruction whose tiles lie within the memories, ready to run."""
    inner = instruction.extents[VECTOR_LOOPS - instruction.reduce_loops :]
    work = Work(
        iterations=prod(instruction.extents),
        inner=prod(inner),
        op=int(instruction.op),
        reduce=int(instruction.reduce),
        x_source=int(instruction.x_source),
        y_source=int(instruction.y_source),
        reads_y=int(reads_y(instruction)),
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
    loops = np.array(
        (
            instruction.extents,
            instruction.x_strides,
            instruction.y_strides,
            instruction.q_strides,
            instruction.dst_strides,
        ),
        np.int64,
    )
    bases = np.array((instruction.x, instruction.y, instruction.q, instruction.dst), np.int64)
    return VectorStep(work, loops, bases)


def vector(step: VectorStep, pads: Pads) -> None:
    """Execute one vector instruction.

    Every result is written before the next is begun; the rules of `accel.legality` make this equal
    to reading all operands first.
    """
    kind, value = functional_lanes.run(step.work, step.loops, step.bases, pads)
    if kind == SHIFT:
        raise CodesignError.of(f"a param word shifts by {value} bits, more than {SHIFT_MAX}")
    if kind != NONE:
        raise unwritten(Memory(kind), value)
