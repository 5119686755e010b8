"""A network as launches of kernels over places in the device's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from codesign.compiler.lower.program import Place
from codesign.ir.simt.kernel import SimtKernel
from codesign.ir.simt.touched import read_by, written_by
from codesign.ir.tensor.layout import Buffer


@final
@dataclass(frozen=True, slots=True, eq=False)
class GpuLaunch:
    """One launch; `places` are the kernel's operands, in order."""

    kernel: SimtKernel
    places: tuple[Place, ...]
    label: str

    @property
    def read(self) -> tuple[Place, ...]:
        """The places of operands that the kernel reads."""
        return self._of(read_by(self.kernel))

    @property
    def written(self) -> tuple[Place, ...]:
        """The places of operands that the kernel writes."""
        return self._of(written_by(self.kernel))

    def _of(self, buffers: frozenset[Buffer]) -> tuple[Place, ...]:
        operands = zip(self.kernel.operands, self.places, strict=True)
        return tuple(place for buffer, place in operands if buffer in buffers)


@final
@dataclass(frozen=True, slots=True, eq=False)
class GpuProgram:
    """Launches in order. For each of `checks` one output of int8 follows the function's own."""

    launches: tuple[GpuLaunch, ...]
    checks: tuple[str, ...] = ()
