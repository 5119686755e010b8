"""What schedules need to know of a processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Machine:
    """Elements that are computed at once, number of vector registers.

    `lanes` are of 32 bits in a vector register. Where a network has sums of 16 bits (`is_narrow`)
    they are of 16 bits: what has 32 takes two registers.
    """

    lanes: int
    registers: int
    is_narrow: bool = False

    def registers_for(self, bits: int) -> int:
        """Return how many vectors of such elements there is room for."""
        return self.registers // 2 if self.is_narrow and bits > 16 else self.registers
