"""What all simulators have in common: they run a program on a byte array and say what it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import PAGE_BYTES, AccelConfig
from codesign.accel.counters import Counters
from codesign.accel.program import Program
from codesign.dtypes import Array

Progress: TypeAlias = Callable[[int, float], None]
"""Is told now and then how many cycles ran, and the speed in cycles per second."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """When every instruction ran, in cycles; both arrays are int64[(instructions,)].

    An instruction occupies its unit from `start`; its effects are complete, and its tokens visible,
    from `end` on.
    """

    start: Array
    end: Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a run took.

    `cycles` is None where the simulator has no notion of time; `counters` then hold only what does
    not depend on it. `timeline` is None where the simulator cannot see single instructions.
    """

    cycles: int | None
    counters: Counters
    timeline: Timeline | None = None


class Simulator(Protocol):
    """Runs programs of one configuration."""

    @property
    def name(self) -> str:
        """Which simulator it is: functional, cycle or rtl."""

    @property
    def config(self) -> AccelConfig:
        """The hardware, its clock and the memory behind its bus."""

    def run(
        self,
        program: Program,
        dram: NDArray[np.uint8],
        bases: Sequence[int],
        progress: Progress | None = None,
    ) -> Outcome:
        """Run a program; change `dram` as the hardware does.

        `bases[i]` is the byte of `dram` at which segment i starts. The program itself lies outside
        `dram`, at `program_base(dram)`.

        Raises
        ------
        CodesignError
            A program for other hardware, a segment outside `dram`, or a run that cannot end.
        """


def program_base(dram: NDArray[np.uint8]) -> int:
    """Return the address of the program: the first page behind the memory of the segments."""
    return -(-dram.size // PAGE_BYTES) * PAGE_BYTES
