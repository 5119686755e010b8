"""Runs a whole network's kernels in the executor of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from codesign.compiler.backends.gpu.execute import execute as execute_in_step
from codesign.compiler.backends.gpu.program import GpuProgram
from codesign.compiler.lower.program import Home, Place
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.types import TensorType
from codesign.ir.simt.kernel import SimtKernel

Execute: TypeAlias = Callable[[SimtKernel, Sequence[Array]], None]
"""Runs a kernel on flat arrays, one to an operand."""


def emulate(
    program: GpuProgram,
    inputs: Sequence[Array],
    outputs: Sequence[TensorType],
    *,
    execute: Execute = execute_in_step,
    observe: Callable[[int, str], None] | None = None,
) -> tuple[Array, ...]:
    """Return a program's outputs; `observe(number, label)` sees each launch before it runs.

    Raises
    ------
    KernelFaultError
        A kernel has a race, accesses memory out of bounds, or parts at a barrier.
    CodesignError
        The inputs make a mistake that the program checks for.
    """
    results = [np.zeros(kind.static_shape, kind.dtype.numpy) for kind in outputs]
    flags = [np.zeros(1, np.int8) for _ in program.checks]
    homes = [*results, *flags]
    given = [np.ascontiguousarray(array) for array in inputs]
    made: dict[Place, Array] = {}

    def memory(place: Place) -> Array:
        match place.home:
            case Home.INPUT:
                return given[place.number]
            case Home.OUTPUT:
                return homes[place.number]
            case Home.CONSTANTS:
                assert place.array is not None, "a constant has content"
                return np.ascontiguousarray(place.array)
            case Home.WORKSPACE:
                return made.setdefault(place, np.zeros(place.size_bytes, np.uint8))

    for number, launch in enumerate(program.launches):
        if observe is not None:
            observe(number, launch.label)
        arrays = [
            memory(place).reshape(-1).view(buffer.dtype.numpy)
            for place, buffer in zip(launch.places, launch.kernel.operands, strict=True)
        ]
        execute(launch.kernel, arrays)
    mistakes = [text for text, flag in zip(program.checks, flags, strict=True) if flag[0]]
    if mistakes:
        raise CodesignError.of(mistakes[0])
    return tuple(results)
