"""Relay to PTX: one module of kernels, and which launches wait for which, for a whole function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

import numpy as np

from codesign.compiler.backends.gpu.device import DEFAULT, DeviceModel
from codesign.compiler.backends.gpu.lower import lower
from codesign.compiler.backends.gpu.nvptx import dynamic_bytes, ptx
from codesign.compiler.backends.gpu.order import by_bytes, by_values, closed, reduced
from codesign.compiler.backends.gpu.program import GpuProgram
from codesign.compiler.lower.graph import Value, graph_of
from codesign.compiler.lower.plan_memory import MemoryPlan, plan_memory
from codesign.compiler.lower.program import Home, Place
from codesign.diagnostics import CodesignError, Problem
from codesign.ir.executable.gpu_kernel import (
    DEVICE_ALIGNMENT,
    DeviceMemory,
    DevicePointer,
    GpuKernel,
    KernelLaunch,
)
from codesign.ir.relay.expr import Expr, Function, If, Match, construct_name
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ir.relay.visit import post_order
from codesign.ir.simt.kernel import SimtKernel
from codesign.ir.simt.printer import simt_text

_CHEAP_BYTES: Final = 1 << 26
"""Workspace that is spent in any case on launches that can run side by side."""

_GROWTH: Final = 2
"""How many times the least workspace is spent on them beyond that."""


def compile_gpu(
    function: Function, types: Mapping[Expr, Type], device: DeviceModel = DEFAULT
) -> GpuKernel:
    """Return PTX for a closed first-order function; `types` are of `infer_types`.

    Raises
    ------
    CodesignError
        The function has operators without lowering (all are named), branches, or unknown
        dimensions.
    """
    check_for_gpu(function, types)
    graph = graph_of(function, types)
    program = lower(graph, device)
    offsets, constants = _pack_constants(program)
    plan, followed = planned(program)
    kernels = named_kernels(program)
    symbols = {simt_text(kernel): name for name, kernel in kernels.items()}

    def pointer(place: Place) -> DevicePointer:
        match place.home:
            case Home.CONSTANTS:
                return DevicePointer(DeviceMemory.CONSTANTS, offsets[place])
            case Home.WORKSPACE:
                return DevicePointer(DeviceMemory.WORKSPACE, plan.offsets[place])
            case Home.INPUT:
                return DevicePointer(DeviceMemory.INPUT, place.number)
            case Home.OUTPUT:
                return DevicePointer(DeviceMemory.OUTPUT, place.number)
            case _:
                assert_never(place.home)

    return GpuKernel(
        ptx=ptx(kernels, device),
        architecture=device.architecture,
        launches=tuple(
            KernelLaunch(
                symbol=symbols[simt_text(launch.kernel)],
                blocks=launch.kernel.block.extent,
                threads=launch.kernel.thread.extent,
                operands=tuple(map(pointer, launch.places)),
                label=launch.label,
                after=after,
                shared_bytes=dynamic_bytes(launch.kernel),
            )
            for launch, after in zip(program.launches, followed, strict=True)
        ),
        constants=constants,
        workspace_bytes=plan.size_bytes,
        inputs=tuple(map(_type_of, graph.inputs)),
        outputs=tuple(map(_type_of, graph.outputs)),
        checks=program.checks,
    )


def check_for_gpu(function: Function, types: Mapping[Expr, Type]) -> None:
    """Raise CodesignError for every parameter that is no tensor of known dimensions, by name.

    For branches too.
    """
    problems = []
    for param in function.params:
        kind = types[param]
        if not isinstance(kind, TensorType):
            what = f"a GPU takes tensors, and input {param.name!r} is none"
            problems.append(Problem(what=what, found=f"it is {kind}", span=param.span))
        elif UNKNOWN in kind.shape:
            problems.append(
                Problem(
                    what=f"a GPU needs known dimensions, and input {param.name!r} has unknown ones",
                    found=f"it is {kind.dtype}{list(kind.shape)}",
                    span=param.span,
                    help="give the dimension when the network is loaded, or compile for the host",
                )
            )
    for node in post_order(function.body):
        if isinstance(node, If | Match):
            what = (
                f"a GPU runs networks without control flow, and this one has {construct_name(node)}"
            )
            advice = "compile for the host, or split the network there"
            problems.append(Problem(what=what, span=node.span, help=advice))
    if problems:
        raise CodesignError(*problems)


def planned(program: GpuProgram) -> tuple[MemoryPlan, list[tuple[int, ...]]]:
    """Return where tensors lie in the workspace, and by numbers what each launch must follow.

    Tensors share bytes only where that makes no launch wait for another; where this takes too
    much memory, they share as if all launches ran one after the other, and some then have to.
    """
    values = by_values(program)
    least = plan_memory(program, DEVICE_ALIGNMENT, 0)
    plan = plan_memory(program, DEVICE_ALIGNMENT, 0, closed(values))
    if plan.size_bytes > max(_CHEAP_BYTES, _GROWTH * least.size_bytes):
        plan = least
    shared = by_bytes(program, plan.offsets)
    return plan, reduced([first | second for first, second in zip(values, shared, strict=True)])


def named_kernels(program: GpuProgram) -> dict[str, SimtKernel]:
    """Return a program's kernels by symbol; equal ones, which have equal text, stand once."""
    distinct: dict[str, SimtKernel] = {}
    for launch in program.launches:
        distinct.setdefault(simt_text(launch.kernel), launch.kernel)
    return {f"kernel{number}": kernel for number, kernel in enumerate(distinct.values())}


def _pack_constants(program: GpuProgram) -> tuple[dict[Place, int], bytes]:
    offsets: dict[Place, int] = {}
    content = bytearray()
    for launch in program.launches:
        for place in launch.places:
            if place.home is Home.CONSTANTS and place not in offsets:
                assert place.array is not None, "a constant has content"
                offsets[place] = len(content)
                content += np.ascontiguousarray(place.array).tobytes()
                content += bytes(-len(content) % DEVICE_ALIGNMENT)
    return offsets, bytes(content)


def _type_of(value: Value) -> TensorType:
    return TensorType(value.shape, value.dtype)
