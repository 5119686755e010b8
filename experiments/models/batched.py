"""Recursive networks on many inputs at once: cells on the host and on the accelerator.

plan = batch(module, inputs)
answers = plan.run(HostCells())

made = quantized_cells(plan)
answers = plan.run(IntegerRun(made, simulator))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from codesign.compiler import driver
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.batching.cells import Cell
from codesign.compiler.batching.integer import IntegerCells, integer_cells
from codesign.compiler.batching.schedule import Plan
from codesign.compiler.quantization.config import QuantizationConfig, RangeMethod
from codesign.dtypes import Array
from codesign.ir.executable.executable import Executable
from codesign.sim.cycle import program_cycles
from codesign.sim.simulator import Simulator
from experiments.road.build import compiled_evaluator
from host_runtime.session import Session


@final
@dataclass(slots=True)
class HostCells:
    """Runs cells in fp32 as native code, each compiled once for any number of samples.

    `seen` holds what cells with samples were given, group by group.
    """

    seen: dict[Cell, list[tuple[Array, ...]]] = field(default_factory=dict)
    _sessions: dict[Cell, Session] = field(default_factory=dict)

    def __call__(self, cell: Cell, samples: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return a cell's results on samples."""
        if cell not in self._sessions:
            self._sessions[cell] = Session(driver.compile(cell.module(None), target="cpu"))
        self.seen.setdefault(cell, []).append(samples)
        inputs = {f"x{index}": each for index, each in enumerate(samples)}
        return tuple(self._sessions[cell].run(inputs).values())


def quantized_cells(plan: Plan) -> IntegerCells:
    """Return a plan's cells in integers, calibrated on the plan's own inputs.

    Raises
    ------
    CodesignError
        No cell has an integer form.
    """
    host = HostCells()
    plan.run(host)
    settings = QuantizationConfig(method=RangeMethod.MINMAX, compensate=False)
    return integer_cells(plan, host.seen, evaluate=compiled_evaluator, config=settings)


@final
@dataclass(slots=True)
class IntegerRun:
    """Runs cells in integers: on the host, or on a simulator of an accelerator.

    On the accelerator, a group is cut into runs of at most `most` samples, each compiled for the
    least power of two that holds it. Cells without an integer form run in fp32 on the host.
    Between cells values are fp32 numbers that stand for codes, each for one only.
    """

    made: IntegerCells
    device: Simulator | None = None
    most: int = 16
    host: HostCells = field(default_factory=HostCells)
    _sessions: dict[tuple[Cell, int], Session] = field(default_factory=dict)
    _tuning: Tuning = field(default_factory=lambda: Tuning(program_cycles))

    def __call__(self, cell: Cell, samples: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return a cell's results on samples."""
        if cell not in self.made.cells:
            return self.host(cell, samples)
        parts = [
            self._run(cell, tuple(each[start : start + self.most] for each in samples))
            for start in range(0, len(samples[0]), self.most)
        ]
        return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))

    def _run(self, cell: Cell, samples: tuple[Array, ...]) -> tuple[Array, ...]:
        count = len(samples[0])
        size = 1 << (count - 1).bit_length()
        made = self.made.cells[cell]
        if (cell, size) not in self._sessions:
            executable = self._compiled(cell, size)
            self._sessions[cell, size] = Session(executable, self.device)
        codes = {
            name: np.pad(params.codes(values).astype(np.int8), ((0, size - count), (0, 0)))
            for (name, params), values in zip(made.inputs.items(), samples, strict=True)
        }
        results = self._sessions[cell, size].run(codes).values()
        return tuple(
            params.values(each[:count]).astype(np.float32)
            for params, each in zip(made.outputs, results, strict=True)
        )

    def _compiled(self, cell: Cell, size: int) -> Executable:
        module = self.made.module(cell, size)
        if self.device is None:
            return driver.compile(module, target="cpu")
        config = self.device.config
        return driver.compile(module, target="accel", config=config, tuning=self._tuning)
