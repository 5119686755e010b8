"""What the accelerator runs: a program, its constants, and where every tensor lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from codesign.accel.config import AccelConfig
from codesign.accel.program import Program
from codesign.ir.executable.layout import Placement

CONSTANTS: Final = 0
"""Segment of weights, parameters and tables."""

ACTIVATIONS: Final = 1
"""Segment of inputs, intermediate tensors and outputs; no two tensors share a byte."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRecord:
    """One layer of a program: which instructions it is and what it has to do.

    `first` and `last` are instruction indices, `last` exclusive. `macs` are the network's own
    multiply-accumulates, without those of padding lanes. `gemm_cycles`, `vector_cycles` and
    `memory_cycles` are what each of the three has to spend at least under this tiling; the
    greatest of them is the layer's roofline, and `bound` names it.
    """

    name: str
    operator: str
    unit: str
    output: str
    first: int
    last: int
    macs: int
    bytes_read: int
    bytes_written: int
    gemm_cycles: int
    vector_cycles: int
    memory_cycles: int

    @property
    def bound_cycles(self) -> int:
        """Cycles that the busiest of array, vector unit and memory needs."""
        return max(self.gemm_cycles, self.vector_cycles, self.memory_cycles)

    @property
    def bound(self) -> str:
        """Which of the three is the busiest."""
        cycles = {
            "gemm": self.gemm_cycles,
            "vector": self.vector_cycles,
            "memory": self.memory_cycles,
        }
        return max(cycles, key=lambda each: cycles[each])


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccelKernel:
    """One region of the network on the accelerator.

    `inputs[i]` are the placements of argument i: several where layers want it in different
    layouts. `outputs` are the placements of the results; `tensors` is every placement, so that a
    disagreement can be traced to the first layer that differs.
    """

    config: AccelConfig
    program: Program
    constants: bytes
    activation_bytes: int
    inputs: tuple[tuple[Placement, ...], ...]
    outputs: tuple[Placement, ...]
    tensors: tuple[Placement, ...]
    layers: tuple[LayerRecord, ...]
