"""Recursive networks on many inputs at once: cells on the host and on the accelerator.

plan = batch(module, inputs)
answers = plan.run(HostCells())
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from codesign.compiler import driver
from codesign.compiler.batching.cells import Cell
from codesign.dtypes import Array
from host_runtime.session import Session


@final
@dataclass(slots=True)
class HostCells:
    """Runs cells as native code, each compiled once for any number of samples."""

    _sessions: dict[Cell, Session] = field(default_factory=dict)

    def __call__(self, cell: Cell, samples: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return a cell's results on samples."""
        if cell not in self._sessions:
            self._sessions[cell] = Session(driver.compile(cell.module(None), target="cpu"))
        inputs = {f"x{index}": each for index, each in enumerate(samples)}
        return tuple(self._sessions[cell].run(inputs).values())
