"""What every instruction does, without time: the living definition of the instruction set.

Instructions run one after another in program order; tokens only order them, and the order of the
program is one that they allow (`accel.tokens`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from codesign.accel.assembly import format_instruction
from codesign.accel.config import AccelConfig, Memory
from codesign.accel.counters import Counters
from codesign.accel.encoding import instruction_bytes
from codesign.accel.isa import Gemm, Instruction, Load, Store, Sync, Vector
from codesign.accel.program import Program, require_digest
from codesign.diagnostics import CodesignError, Problem
from codesign.sim import functional_dram, functional_gemm, functional_vector
from codesign.sim.state import Scratchpads


class FunctionalSimulator:
    """Executes programs on a byte array.

    Parameters
    ----------
    config
        The hardware; its clock and DRAM timing play no part.

    Attributes
    ----------
    state
        The scratchpads after the last run.
    """

    def __init__(self, config: AccelConfig) -> None:
        self.config = config
        self.state = Scratchpads(config)

    def run(self, program: Program, dram: NDArray[np.uint8], bases: Sequence[int]) -> Counters:
        """Execute a program that `check_program` accepts, from empty scratchpads; change `dram`.

        `bases[i]` is the byte of `dram` at which segment i starts. The counters are those that do
        not depend on time: bytes, macs, saturations and instructions.

        Raises
        ------
        CodesignError
            A program for other hardware, segments outside `dram` or unaligned; an instruction that
            reads a tile that nothing has written, or a param word that shifts too far, with the
            instruction's index and text.
        """
        require_digest(program, self.config)
        _check_segments(program, dram, bases, self.config)
        self.state = Scratchpads(self.config)
        saturations = 0
        for index, instruction in enumerate(program.instructions):
            try:
                saturations += self._execute(instruction, dram, bases)
            except CodesignError as error:
                raise CodesignError(
                    Problem(
                        what=f"instruction {index}: {error.diagnostics[0].title_text()}",
                        found=format_instruction(instruction),
                    )
                ) from None
        return _counters(program, saturations, self.config)

    def _execute(
        self, instruction: Instruction, dram: NDArray[np.uint8], bases: Sequence[int]
    ) -> int:
        match instruction:
            case Sync():
                return 0
            case Load():
                base = bases[instruction.segment]
                functional_dram.load(instruction, self.config, self.state, dram, base)
                return 0
            case Gemm():
                return functional_gemm.gemm(instruction, self.config, self.state)
            case Vector():
                functional_vector.vector(instruction, self.config, self.state)
                return 0
            case Store():
                base = bases[instruction.segment]
                functional_dram.store(instruction, self.config, self.state, dram, base)
                return 0
            case _:
                assert_never(instruction)


def _check_segments(
    program: Program, dram: NDArray[np.uint8], bases: Sequence[int], config: AccelConfig
) -> None:
    if len(bases) < len(program.segments):
        raise CodesignError.of(
            f"the program has {len(program.segments)} segments, but {len(bases)} bases are given"
        )
    for index, (size, base) in enumerate(zip(program.segments, bases, strict=False)):
        if base % config.bus_bytes:
            raise CodesignError.of(
                f"base {base:#x} of segment {index} is no multiple of {config.bus_bytes} bytes"
            )
        if base < 0 or base + size > dram.size:
            raise CodesignError.of(
                f"segment {index} lies outside the memory",
                found=f"bytes {base} to {base + size} of {dram.size}",
            )


def _counters(program: Program, saturations: int, config: AccelConfig) -> Counters:
    read = instruction_bytes(config) * len(program.instructions)
    written = macs = 0
    for instruction in program.instructions:
        match instruction:
            case Load():
                tiles = int(np.prod(instruction.size))
                read += tiles * config.dram_tile_bytes(instruction.memory)
            case Store():
                written += int(np.prod(instruction.size)) * config.dram_tile_bytes(Memory.OUT)
            case Gemm():
                macs += int(np.prod(instruction.extents)) * config.macs
            case Vector() | Sync():
                pass
            case _:
                assert_never(instruction)
    return Counters(
        bytes_read=read,
        bytes_written=written,
        macs=macs,
        saturations=saturations,
        instructions=len(program.instructions),
    )
