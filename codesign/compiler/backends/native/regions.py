"""Regions of operators to kernels: one native function for each that is different.

void region(constants, workspace, input …, output …, check …)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never, final

import numpy as np

from codesign.compiler.backends.llvm.cpu import kernel_text
from codesign.compiler.backends.llvm.target import CpuTarget
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.lower.graph import Graph, Step
from codesign.compiler.lower.graph import Value as Tensor
from codesign.compiler.lower.lower import lower
from codesign.compiler.lower.plan_memory import MemoryPlan, plan_memory
from codesign.compiler.lower.program import Home, Launch, Place, Program
from codesign.compiler.schedule.machine import Machine
from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import Array
from codesign.ir.control.program import Region, Value
from codesign.ir.executable.cpu_kernel import ALIGNMENT
from codesign.ir.relay.types import UNKNOWN, TensorType
from codesign.ir.tensor.kernel import LoopKernel
from codesign.ir.tensor.layout import PLAIN
from codesign.ir.tensor.uses import loads_of

_SLACK_BYTES = 128


@final
@dataclass(frozen=True, slots=True, eq=False)
class RegionCode:
    """How to call a region: its function and the mistakes that it may find.

    `over[output]` are the places of the inputs where an output may lie.
    """

    name: str
    checks: tuple[str, ...]
    over: tuple[tuple[int, ...], ...]


@final
class ConstantPool:
    """Arrays that compiled code reads, as one block of bytes; equal content is kept once."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, content: bytes) -> int:
        """Return where the content lies."""
        if content not in self._offsets:
            length = -(-(len(content) + _SLACK_BYTES) // ALIGNMENT) * ALIGNMENT
            self._offsets[content] = self._size
            self._pieces.append(content.ljust(length, b"\0"))
            self._size += length
        return self._offsets[content]

    def content(self) -> bytes:
        """Return all bytes."""
        return b"".join(self._pieces)


@final
class RegionCompiler:
    """Compiles regions; `definitions` and `declarations` are the text of the kernels' module."""

    def __init__(self, target: CpuTarget, pool: ConstantPool) -> None:
        self.target = target
        self.pool = pool
        self.workspace_bytes = ALIGNMENT
        self.definitions: list[str] = []
        self.declarations: set[str] = set()
        self._kernels: dict[str, str] = {}
        self._regions: dict[str, str] = {}

    def compile(self, region: Region) -> RegionCode:
        """Return the code of a region whose shapes are all known."""
        refuse_unknown(region)
        graph = _graph(region)
        program = lower(graph, Machine(self.target.lanes, self.target.registers))
        plan = plan_memory(program, ALIGNMENT, _SLACK_BYTES)
        self.workspace_bytes = max(self.workspace_bytes, plan.size_bytes)
        body = self._body(program, plan, len(region.inputs), len(region.results))
        if body not in self._regions:
            name = f"region{len(self._regions)}"
            self._regions[body] = name
            self.definitions.append(f"define void @{name}{body}")
        return RegionCode(self._regions[body], program.checks, _over(program, region))

    def _body(self, program: Program, plan: MemoryPlan, inputs: int, outputs: int) -> str:
        text = FunctionText()
        calls = []
        pointers: dict[Place, str] = {}
        for launch in program.launches:
            name = self._kernel(launch)
            for place in launch.places:
                if place not in pointers:
                    pointers[place] = self._pointer(place, plan, text)
            args = ", ".join(f"ptr {pointers[place]}" for place in launch.places)
            calls.append(f"  call void @{name}({args})")
        names = ["%constants", "%workspace", *(f"%in{place}" for place in range(inputs))]
        names += [f"%out{place}" for place in range(outputs + len(program.checks))]
        parameters = ", ".join(f"ptr {name}" for name in names)
        lines = "\n".join([*text.lines, *calls])
        return f"({parameters}) #0 {{\n{lines}\n  ret void\n}}"

    def _kernel(self, launch: Launch) -> str:
        body = kernel_text(launch.kernel, self.target, self.declarations)
        if body not in self._kernels:
            name = f"kernel{len(self._kernels)}"
            self._kernels[body] = name
            self.definitions.append(f"define internal void @{name}{body}")
        return self._kernels[body]

    def _pointer(self, place: Place, plan: MemoryPlan, text: FunctionText) -> str:
        match place.home:
            case Home.CONSTANTS:
                assert place.array is not None, "a constant has content"
                offset = self.pool.add(np.ascontiguousarray(place.array).tobytes())
                return text.op(f"getelementptr i8, ptr %constants, i64 {offset}")
            case Home.WORKSPACE:
                return text.op(f"getelementptr i8, ptr %workspace, i64 {plan.offsets[place]}")
            case Home.INPUT:
                return f"%in{place.number}"
            case Home.OUTPUT:
                return f"%out{place.number}"
            case _:
                assert_never(place.home)


def _graph(region: Region) -> Graph:
    known: dict[Value, Tensor] = {}
    for value in region.inputs:
        known[value] = _tensor(value, None)
    for value, array in region.literals.items():
        known[value] = _tensor(value, array)
    steps: list[Step] = []
    for operator in region.operators:
        inputs = tuple(known[value] for value in operator.inputs)
        for field, result in enumerate(operator.results):
            known[result] = _tensor(result, None)
            steps.append(
                Step(operator.operator, operator.attrs, inputs, known[result], operator.span, field)
            )
    return Graph(
        tuple(known[value] for value in region.inputs),
        tuple(steps),
        tuple(known[value] for value in region.results),
    )


def _tensor(value: Value, array: Array | None) -> Tensor:
    assert value.tensor is not None, f"{value.name} is a tensor; the types have seen to it"
    return Tensor(value.tensor.static_shape, value.tensor.dtype, array)


def refuse_unknown(region: Region) -> None:
    """Refuse operators on shapes that are not known."""
    mistakes = [
        Problem(
            what=f"{operator.operator} is not compiled for shapes that are not known",
            span=operator.span,
        )
        for operator in region.operators
        if any(_is_unknown(value.tensor) for value in (*operator.inputs, *operator.results))
    ]
    if mistakes:
        raise CodesignError(*mistakes)


def _is_unknown(type_: TensorType | None) -> bool:
    return type_ is not None and UNKNOWN in type_.shape


def _over(program: Program, region: Region) -> tuple[tuple[int, ...], ...]:
    """Return for each result the inputs over which it may be written.

    The input must not be read after the result's first write, nor elsewhere than at the element
    that is being written.
    """
    return tuple(
        tuple(
            source
            for source in range(len(region.inputs))
            if _may_lie_over(program.launches, source, output)
        )
        for output in range(len(region.results))
    )


def _may_lie_over(launches: Sequence[Launch], source: int, output: int) -> bool:
    writes = False
    for launch in launches:
        reads = [p for p in launch.places if p.home is Home.INPUT and p.number == source]
        makes = [p for p in launch.places if p.home is Home.OUTPUT and p.number == output]
        if reads and (writes or (makes and not _is_pointwise(launch, reads[0], makes[0]))):
            return False
        writes = writes or bool(makes)
    return True


def _is_pointwise(launch: Launch, source: Place, target: Place) -> bool:
    """Whether a kernel reads of one place only the element that it writes to another."""
    kernel = launch.kernel
    if not isinstance(kernel, LoopKernel) or len(kernel.stages) != 1:
        return False
    (stage,) = kernel.stages
    if launch.places.count(source) != 1 or launch.places.count(target) != 1:
        return False
    read = kernel.operands[launch.places.index(source)]
    same = (
        kernel.operands[launch.places.index(target)] is stage.target
        and read.shape == stage.target.shape
        and read.dtype is stage.target.dtype
        and read.layout == stage.target.layout == PLAIN
    )
    return same and all(
        load.index == stage.index for load in loads_of(stage.body) if load.buffer is read
    )
