"""A network as launches of kernels over places in the device's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from codesign.compiler.lower.program import Place
from codesign.ir.simt.kernel import SimtKernel


@final
@dataclass(frozen=True, slots=True, eq=False)
class GpuLaunch:
    """One launch; `places` are the kernel's operands, in order."""

    kernel: SimtKernel
    places: tuple[Place, ...]
    label: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class GpuProgram:
    """Launches in order. For each of `checks` one output of int8 follows the function's own."""

    launches: tuple[GpuLaunch, ...]
    checks: tuple[str, ...] = ()
