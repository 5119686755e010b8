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
from codesign.compiler.backends.native.rows import (
    BLOCKS,
    PLACEHOLDER,
    ByRow,
    Taken,
    block_loop,
    has_unknown,
    known_type,
    rows_of,
)
from codesign.compiler.lower.graph import Graph, Step
from codesign.compiler.lower.graph import Value as Tensor
from codesign.compiler.lower.lower import lower
from codesign.compiler.lower.plan_memory import MemoryPlan, plan_memory
from codesign.compiler.lower.program import Home, Launch, Place, Program
from codesign.compiler.schedule.machine import Machine
from codesign.dtypes import Array, DType
from codesign.ir.control.program import Region, Value
from codesign.ir.executable.cpu_kernel import ALIGNMENT
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
    lengths: tuple[int, ...] = ()
    """Inputs whose number of rows is an operand, a pointer to an i64."""
    rows: int | None = None
    """The input whose number of rows, an i64, is the last operand, and that of all results."""


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

    def compile(self, region: Region) -> RegionCode | None:
        """Return the code of a region, None where shapes are not known in other ways than rows."""
        if not has_unknown(region):
            program = self._lowered(_graph(region, 0, ()))
            return RegionCode(
                self._named(program, region, 0), program.checks, _over(program, region)
            )
        match rows_of(region):
            case ByRow() as by_row:
                return self._by_row(region, by_row)
            case Taken() as taken:
                return self._taken(region, taken)
            case _:
                return None

    def _by_row(self, region: Region, by_row: ByRow) -> RegionCode | None:
        kernels = []
        for height in BLOCKS:
            program = self._lowered(_graph(region, height, ()))
            if program.checks:
                return None
            kernels.append((height, self._named(program, region, 0)))
        name = self._function(block_loop(region, kernels))
        over: tuple[tuple[int, ...], ...] = ((),) * len(region.results)
        return RegionCode(name, (), over, (), region.inputs.index(by_row.source))

    def _taken(self, region: Region, taken: Taken) -> RegionCode:
        lengths = tuple(region.inputs.index(source) for source in taken.sources)
        program = self._lowered(_graph(region, PLACEHOLDER, taken.sources))
        over = tuple(
            tuple(place for place in places if place not in lengths)
            for places in _over(program, region)
        )
        name = self._named(program, region, len(lengths))
        return RegionCode(name, program.checks, over, lengths)

    def _lowered(self, graph: Graph) -> Program:
        return lower(graph, Machine(self.target.lanes, self.target.registers))

    def _named(self, program: Program, region: Region, lengths: int) -> str:
        """Return the name of the function that runs a program, whose last inputs are lengths."""
        plan = plan_memory(program, ALIGNMENT, _SLACK_BYTES)
        self.workspace_bytes = max(self.workspace_bytes, plan.size_bytes)
        return self._function(self._body(program, plan, region, lengths))

    def _function(self, body: str) -> str:
        if body not in self._regions:
            name = f"region{len(self._regions)}"
            self._regions[body] = name
            self.definitions.append(f"define void @{name}{body}")
        return self._regions[body]

    def _body(self, program: Program, plan: MemoryPlan, region: Region, lengths: int) -> str:
        text = FunctionText()
        inputs, outputs = len(region.inputs), len(region.results)
        first_check = outputs
        outputs += len(program.checks)
        if lengths:
            _leave_if_empty(text, range(inputs, inputs + lengths), range(first_check, outputs))
        calls = []
        pointers: dict[Place, str] = {}
        for launch in program.launches:
            name = self._kernel(launch)
            for place in launch.places:
                if place not in pointers:
                    pointers[place] = self._pointer(place, plan, text)
            args = ", ".join(f"ptr {pointers[place]}" for place in launch.places)
            calls.append(f"  call void @{name}({args})")
        names = ["%constants", "%workspace", *(f"%in{place}" for place in range(inputs + lengths))]
        names += [f"%out{place}" for place in range(outputs)]
        parameters = ", ".join(f"ptr {name}" for name in names)
        lines = "\n".join([*text.lines, *calls])
        return f"({parameters}) #0 {{\nentry:\n{lines}\n  ret void\n}}"

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


def _leave_if_empty(text: FunctionText, lengths: range, checks: range) -> None:
    """Write what makes every check fail, and nothing else, where a tensor has no rows at all."""
    for place in lengths:
        length = text.op(f"load i64, ptr %in{place}")
        none = text.op(f"icmp eq i64 {length}, 0")
        empty, more = text.fresh(), text.fresh()
        text.do(f"br i1 {none}, label %{empty}, label %{more}")
        text.label(empty)
        for check in checks:
            text.do(f"store i8 1, ptr %out{check}")
        text.do("ret void")
        text.label(more)


def _graph(region: Region, rows: int, sources: tuple[Value, ...]) -> Graph:
    """Return a region as a graph, with `rows` in the place of an unknown number of rows.

    The numbers of rows of `sources` are further inputs, which `take` gets.
    """
    known: dict[Value, Tensor] = {value: _tensor(value, rows, None) for value in region.inputs}
    for value, array in region.literals.items():
        known[value] = _tensor(value, rows, array)
    lengths = {value: Tensor((), DType.INT64) for value in sources}
    steps: list[Step] = []
    for operator in region.operators:
        inputs = tuple(known[value] for value in operator.inputs)
        inputs += tuple(lengths[value] for value in operator.inputs if value in lengths)
        for field, result in enumerate(operator.results):
            known[result] = _tensor(result, rows, None)
            steps.append(
                Step(operator.operator, operator.attrs, inputs, known[result], operator.span, field)
            )
    return Graph(
        (*(known[value] for value in region.inputs), *lengths.values()),
        tuple(steps),
        tuple(known[value] for value in region.results),
    )


def _tensor(value: Value, rows: int, array: Array | None) -> Tensor:
    type_ = known_type(value, rows)
    return Tensor(type_.static_shape, type_.dtype, array)


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
