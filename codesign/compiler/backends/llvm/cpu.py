"""Relay to native code: one object file and one entry for a whole function.

    void entry(void **pointers)      constants, workspace, inputs …, outputs …

Equal kernels are compiled once. Weights stay outside of the module, as one aligned block of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never, final

import llvmlite.binding as llvm
import numpy as np

from codesign.compiler.backends.llvm.contraction import contraction_operands, emit_contraction
from codesign.compiler.backends.llvm.depthwise import depthwise_operands, emit_depthwise
from codesign.compiler.backends.llvm.nest import emit_loops
from codesign.compiler.backends.llvm.target import CpuTarget, host, target_machine
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.lower.anchors import INTEGER_ANCHORS
from codesign.compiler.lower.graph import Graph, Value, graph_of
from codesign.compiler.lower.lower import lower
from codesign.compiler.lower.plan_memory import MemoryPlan, plan_memory
from codesign.compiler.lower.program import Home, Place, Program
from codesign.compiler.schedule.machine import Machine
from codesign.diagnostics import InternalError
from codesign.dtypes import DType
from codesign.ir.executable.cpu_kernel import ALIGNMENT, CpuKernel
from codesign.ir.relay.expr import Expr, Function
from codesign.ir.relay.types import TensorType, Type
from codesign.ir.tensor.kernel import Contraction, Depthwise, Kernel, LoopKernel

_SYMBOL: Final = "entry"
_SLACK_BYTES: Final = 128
"""Bytes after every constant and intermediate tensor that a vector may reach over."""


def compile_cpu(
    function: Function,
    types: Mapping[Expr, Type],
    *,
    cpu: str | None = None,
    features: str | None = None,
) -> CpuKernel:
    """Return native code for a closed first-order function; `types` are of `infer_types`.

    Without `cpu` and `features` (LLVM's names, such as `znver3` and `+avx2,+fma`) the code is for
    the processor that this process runs on.

    Raises
    ------
    CodesignError
        The function has operators without lowering (all are named), branches or unknown dimensions.
    """
    target = _target(cpu, features)
    graph = graph_of(function, types)
    program = lower(graph, _machine(graph, target))
    plan = plan_memory(program, ALIGNMENT, _SLACK_BYTES)
    constants = _pack_constants(program)
    module = _module_text(program, plan, constants.offsets, target, len(graph.inputs))
    return CpuKernel(
        object_code=object_code(module, target),
        symbol=_SYMBOL,
        triple=target.triple,
        cpu=target.cpu,
        features=target.features,
        constants=constants.content,
        workspace_bytes=plan.size_bytes,
        inputs=tuple(_type_of(value) for value in graph.inputs),
        outputs=tuple(_type_of(value) for value in graph.outputs),
        checks=program.checks,
    )


def module_text(function: Function, types: Mapping[Expr, Type]) -> str:
    """Return the LLVM module that `compile_cpu` makes for this processor, before optimization."""
    target = host()
    graph = graph_of(function, types)
    program = lower(graph, _machine(graph, target))
    plan = plan_memory(program, ALIGNMENT, _SLACK_BYTES)
    offsets = _pack_constants(program).offsets
    return _module_text(program, plan, offsets, target, len(graph.inputs))


def _target(cpu: str | None, features: str | None) -> CpuTarget:
    own = host()
    if cpu is None and features is None:
        return own
    return CpuTarget(own.triple, cpu or "generic", features or "")


def _machine(graph: Graph, target: CpuTarget) -> Machine:
    sums = {step.result.dtype for step in graph.steps if step.operator in INTEGER_ANCHORS}
    if DType.INT16 in sums:
        return Machine(2 * target.lanes, target.registers, is_narrow=True)
    return Machine(target.lanes, target.registers)


def _type_of(value: Value) -> TensorType:
    return TensorType(value.shape, value.dtype)


@final
@dataclass(frozen=True, slots=True)
class _Constants:
    content: bytes
    offsets: Mapping[Place, int]


def _pack_constants(program: Program) -> _Constants:
    offsets: dict[Place, int] = {}
    pieces: list[bytes] = []
    size = 0
    for launch in program.launches:
        for place in launch.places:
            if place.home is not Home.CONSTANTS or place in offsets:
                continue
            assert place.array is not None, "a constant has content"
            content = np.ascontiguousarray(place.array).tobytes()
            length = -(-(len(content) + _SLACK_BYTES) // ALIGNMENT) * ALIGNMENT
            offsets[place] = size
            pieces.append(content.ljust(length, b"\0"))
            size += length
    return _Constants(b"".join(pieces), offsets)


def _module_text(
    program: Program,
    plan: MemoryPlan,
    constants: Mapping[Place, int],
    target: CpuTarget,
    inputs: int,
) -> str:
    machine = target_machine(target)
    functions: dict[str, str] = {}
    declarations: set[str] = set()
    calls: list[str] = []
    loads = FunctionText()
    writer = _EntryWriter(loads, plan, constants, inputs)
    for launch in program.launches:
        body = kernel_text(launch.kernel, target, declarations)
        name = functions.setdefault(body, f"kernel{len(functions)}")
        pointers = ", ".join(f"ptr {writer.pointer(place)}" for place in launch.places)
        calls.append(f"  call void @{name}({pointers})")
    definitions = [f"define internal void @{name}{body}" for body, name in functions.items()]
    entry = [
        f"define void @{_SYMBOL}(ptr %pointers) #0 {{",
        *loads.lines,
        *calls,
        "  ret void",
        "}",
    ]
    header = [f'target datalayout = "{machine.target_data}"', f'target triple = "{target.triple}"']
    width = target.vector_bits
    attributes = f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" }}'
    return "\n".join([*header, *sorted(declarations), *definitions, *entry, attributes, ""])


@final
class _EntryWriter:
    """Pointers to places, as the entry computes them."""

    def __init__(
        self,
        text: FunctionText,
        plan: MemoryPlan,
        constants: Mapping[Place, int],
        inputs: int,
    ) -> None:
        self.text = text
        self.plan = plan
        self.constants = constants
        self.inputs = inputs
        self._bases: dict[int, str] = {}
        self._known: dict[Place, str] = {}

    def pointer(self, place: Place) -> str:
        if place not in self._known:
            self._known[place] = self._fresh(place)
        return self._known[place]

    def _fresh(self, place: Place) -> str:
        match place.home:
            case Home.CONSTANTS:
                return self._moved(self._base(0), self.constants[place])
            case Home.WORKSPACE:
                return self._moved(self._base(1), self.plan.offsets[place])
            case Home.INPUT:
                return self._base(2 + place.number)
            case Home.OUTPUT:
                return self._base(2 + self.inputs + place.number)
            case _:
                assert_never(place.home)

    def _base(self, number: int) -> str:
        if number not in self._bases:
            slot = self.text.op(f"getelementptr ptr, ptr %pointers, i64 {number}")
            self._bases[number] = self.text.op(f"load ptr, ptr {slot}")
        return self._bases[number]

    def _moved(self, base: str, offset: int) -> str:
        return self.text.op(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base


def kernel_text(kernel: Kernel, target: CpuTarget, declarations: set[str]) -> str:
    """Return a kernel as parameters and body of a function; note what it calls."""
    text = FunctionText()
    match kernel:
        case LoopKernel():
            operands = kernel.operands
            emit_loops(kernel, text, target.lanes)
        case Contraction():
            operands = contraction_operands(kernel)
            emit_contraction(kernel, text, target)
        case Depthwise():
            operands = depthwise_operands(kernel)
            emit_depthwise(kernel, text, target)
        case _:
            assert_never(kernel)
    declarations |= text.declarations
    parameters = ", ".join(f"ptr %p{place}" for place in range(len(operands)))
    body = "\n".join(text.lines)
    return f"({parameters}) #0 {{\nentry:\n{body}\n  ret void\n}}"


def object_code(module: str, target: CpuTarget) -> bytes:
    """Return a module's object code.

    The kernels are scheduled before LLVM sees them: its whole pipeline takes ten times as long as
    this one pass and makes no network faster.
    """
    machine = target_machine(target)
    try:
        parsed = llvm.parse_assembly(module)
        parsed.verify()
    except RuntimeError as error:
        raise InternalError(f"the CPU backend wrote a module that LLVM refuses: {error}") from None
    passes = llvm.create_new_function_pass_manager()
    passes.add_instruction_combine_pass()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    for function in parsed.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    code: bytes = machine.emit_object(parsed)
    return code
