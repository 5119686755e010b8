"""What every instruction does, without time: the living definition of the instruction set.

Instructions run one after another in program order; tokens only order them, and the order of the
program is one that they allow (`accel.tokens`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from codesign.accel.assembly import format_instruction
from codesign.accel.config import AccelConfig
from codesign.accel.counters import Counters
from codesign.accel.program import Program, require_digest
from codesign.diagnostics import CodesignError, Problem
from codesign.sim import functional_dram, functional_gemm, functional_vector
from codesign.sim.functional_decode import Decoded, Step, decode
from codesign.sim.functional_dram import LoadStep, StoreStep
from codesign.sim.functional_gemm import MatrixStep, TileStep
from codesign.sim.functional_lanes import Pads
from codesign.sim.functional_vector import VectorStep, pads_of
from codesign.sim.state import Scratchpads

PROGRAMS_KEPT: Final = 64
"""Programs that a simulator keeps decoded; the oldest go first."""


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
        self._decoded: dict[int, tuple[Program, Decoded]] = {}

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
        decoded = self._decode(program)
        self.state = Scratchpads(self.config)
        pads = pads_of(self.state)
        saturations = 0
        for index, step in decoded.steps:
            try:
                saturations += self._execute(step, pads, dram, bases)
            except CodesignError as error:
                raise CodesignError(
                    Problem(
                        what=f"instruction {index}: {error.diagnostics[0].title_text()}",
                        found=format_instruction(program.instructions[index]),
                    )
                ) from None
        return replace(decoded.counters, saturations=saturations)

    def _decode(self, program: Program) -> Decoded:
        """Return a program ready to run, from an earlier run of the same object where there is one.

        What is kept holds the program too, so that no other can come to bear its id.
        """
        if id(program) not in self._decoded:
            while len(self._decoded) >= PROGRAMS_KEPT:
                del self._decoded[next(iter(self._decoded))]
            self._decoded[id(program)] = program, decode(program, self.config)
        return self._decoded[id(program)][1]

    def _execute(
        self, step: Step, pads: Pads, dram: NDArray[np.uint8], bases: Sequence[int]
    ) -> int:
        match step:
            case LoadStep():
                base = bases[step.box.segment]
                functional_dram.load(step, self.config, self.state, dram, base)
                return 0
            case VectorStep():
                functional_vector.vector(step, pads)
                return 0
            case StoreStep():
                base = bases[step.box.segment]
                functional_dram.store(step, self.config, self.state, dram, base)
                return 0
            case MatrixStep() | TileStep():
                return functional_gemm.gemm(step, self.config, self.state)
            case _:
                assert_never(step)


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
