"""What schedules need to know of a processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Machine:
    """`lanes` of 32 bits in a vector register, number of vector registers."""

    lanes: int
    registers: int
