"""A figure with its unit, as the last line of a row prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from rich.console import Console

CONSOLE = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
"""Progress goes to standard error; standard output ends with the figure."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One figure; `digits` after the point are printed."""

    value: float
    unit: str
    digits: int = 0

    def line(self, name: str) -> str:
        """Return `name: value unit`."""
        return f"{name}: {self.value:.{self.digits}f} {self.unit}"
