"""Programs made ready for the functional simulator: once for any number of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias, assert_never, final

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.counters import Counters
from codesign.accel.encoding import instruction_bytes
from codesign.accel.footprint import footprint
from codesign.accel.isa import Gemm, Instruction, Load, Store, Sync, Vector
from codesign.accel.program import Program
from codesign.diagnostics import InternalError
from codesign.sim import functional_dram, functional_gemm, functional_vector
from codesign.sim.functional_dram import LoadStep, StoreStep
from codesign.sim.functional_gemm import MatrixStep, TileStep
from codesign.sim.functional_vector import VectorStep

Step: TypeAlias = LoadStep | MatrixStep | TileStep | VectorStep | StoreStep
"""An instruction that moves data or computes."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """A program's steps, each with its instruction's index, and the counters no data changes."""

    steps: tuple[tuple[int, Step], ...]
    counters: Counters


def decode(program: Program, config: AccelConfig) -> Decoded:
    """Return a program that `check_program` accepts, ready to run.

    Raises
    ------
    InternalError
        An instruction reaches out of a memory: compiled loops do not look.
    """
    steps = []
    for index, instruction in enumerate(program.instructions):
        _check_reach(instruction, config)
        step = _step(instruction, config)
        if step is not None:
            steps.append((index, step))
    return Decoded(tuple(steps), _counters(program.instructions, config))


def _step(instruction: Instruction, config: AccelConfig) -> Step | None:
    match instruction:
        case Sync():
            return None
        case Load():
            return functional_dram.prepare_load(instruction, config)
        case Gemm():
            return functional_gemm.prepare(instruction, config)
        case Vector():
            return functional_vector.prepare(instruction, config)
        case Store():
            return functional_dram.prepare_store(instruction, config)
        case _:
            assert_never(instruction)


def _check_reach(instruction: Instruction, config: AccelConfig) -> None:
    for tiles in footprint(instruction):
        if tiles.first < 0 or tiles.end > config.depth(tiles.memory):
            raise InternalError("a program that was not checked leaves a scratchpad")


def _counters(instructions: Sequence[Instruction], config: AccelConfig) -> Counters:
    read = instruction_bytes(config) * len(instructions)
    written = macs = 0
    for instruction in instructions:
        match instruction:
            case Load():
                read += prod(instruction.size) * config.dram_tile_bytes(instruction.memory)
            case Store():
                written += prod(instruction.size) * config.dram_tile_bytes(Memory.OUT)
            case Gemm():
                macs += prod(instruction.extents) * config.macs
            case Vector() | Sync():
                pass
            case _:
                assert_never(instruction)
    return Counters(
        bytes_read=read, bytes_written=written, macs=macs, instructions=len(instructions)
    )
