"""Kernels of threads to PTX, through LLVM's NVPTX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import llvmlite.binding as llvm

from codesign.compiler.backends.gpu import nvptx_warp
from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.double import define_library
from codesign.compiler.backends.gpu.emit import emit
from codesign.compiler.backends.gpu.legalize import legalize
from codesign.compiler.backends.llvm.arithmetic import memory_type
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.diagnostics import InternalError
from codesign.ir.simt.kernel import SimtKernel
from codesign.ir.simt.matrix import Mma
from codesign.ir.tensor.layout import Buffer

TRIPLE: Final = "nvptx64-nvidia-cuda"
_SHARED: Final = "addrspace(3)"
_DYNAMIC: Final = "shared"
_STATIC_BYTES: Final = 48 * 1024
"""What a kernel may name; beyond that, memory is asked for when it is launched."""


def ptx(kernels: Mapping[str, SimtKernel], device: DeviceModel) -> str:
    """Return one module of PTX with kernels by name, in the oldest version that suffices."""
    machine = _machine(device)
    declarations: set[str] = set()
    functions = [
        emit(legalize(kernel), name, _Nvptx(), declarations) for name, kernel in kernels.items()
    ]
    header = [f'target datalayout = "{machine.target_data}"', f'target triple = "{TRIPLE}"']
    library = define_library(declarations)
    if any(map(dynamic_bytes, kernels.values())):
        header.append(f"@{_DYNAMIC} = external {_SHARED} global [0 x i8], align 128")
    module = "\n".join([*header, *sorted(declarations), library, *functions, ""])
    try:
        parsed = llvm.parse_assembly(module)
        parsed.verify()
    except RuntimeError as error:
        raise InternalError(f"the GPU backend wrote a module that LLVM refuses: {error}") from None
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return str(machine.emit_assembly(parsed))


def dynamic_bytes(kernel: SimtKernel) -> int:
    """Return the shared memory with which a kernel must be launched; 0 where it names its own."""
    size = sum(map(_aligned_bytes, kernel.shared))
    return size if size > _STATIC_BYTES else 0


def _aligned_bytes(buffer: Buffer) -> int:
    return -(-buffer.size_bytes // 16) * 16


def _machine(device: DeviceModel) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=device.architecture, opt=3)


@final
class _Nvptx:
    """The dialect of the GPU."""

    def define(self, kernel: SimtKernel, name: str) -> str:
        pointers = ", ".join(
            f"ptr noalias align 16 %g{number}" for number in range(len(kernel.operands))
        )
        attributes = f'"nvvm.maxntid"="{kernel.thread.extent}" "nvvm.minctasm"="1" nounwind'
        return f"define ptx_kernel void @{name}({pointers}) {attributes}"

    def globals(self, kernel: SimtKernel, name: str) -> list[str]:
        if dynamic_bytes(kernel):
            return []
        return [
            f"@{_shared_name(name, buffer)} = internal {_SHARED} global "
            f"[{buffer.elements} x {memory_type(buffer.dtype)}] poison, align 16"
            for buffer in kernel.shared
        ]

    def operand(self, text: FunctionText, number: int) -> str:
        return f"%g{number}"

    def shared(self, text: FunctionText, kernel: SimtKernel, name: str, buffer: Buffer) -> str:
        if dynamic_bytes(kernel):
            before = kernel.shared[: kernel.shared.index(buffer)]
            offset = sum(map(_aligned_bytes, before))
            place = f"getelementptr (i8, ptr {_SHARED} @{_DYNAMIC}, i64 {offset})"
            return text.op(f"addrspacecast ptr {_SHARED} {place} to ptr")
        return text.op(f"addrspacecast ptr {_SHARED} @{_shared_name(name, buffer)} to ptr")

    def numbers(self, text: FunctionText, kernel: SimtKernel) -> tuple[str, str]:
        block = _number(text, "ctaid.x", kernel.block.extent)
        return block, _number(text, "tid.x", kernel.thread.extent)

    def barrier(self, text: FunctionText) -> None:
        name = "llvm.nvvm.barrier.cta.sync.aligned.all"
        text.declarations.add(f"declare void @{name}(i32)")
        text.do(f"call void @{name}(i32 0)")

    def copy(
        self, text: FunctionText, target: str, source: str, size_bytes: int, read_bytes: str
    ) -> None:
        nvptx_warp.copy(text, target, source, size_bytes, read_bytes)

    def commit(self, text: FunctionText) -> None:
        nvptx_warp.commit(text)

    def wait(self, text: FunctionText, pending: int) -> None:
        nvptx_warp.wait(text, pending)

    def matrices(
        self, text: FunctionText, source: str, count: int, *, transposed: bool
    ) -> list[str]:
        return nvptx_warp.matrices(text, source, count, transposed=transposed)

    def multiply(
        self, text: FunctionText, kind: Mma, sums: list[str], left: list[str], right: list[str]
    ) -> list[str]:
        return nvptx_warp.multiply(text, kind, sums, left, right)

    def exchange(self, text: FunctionText, word: str, mask: int) -> str:
        return nvptx_warp.exchange(text, word, mask)


def _shared_name(name: str, buffer: Buffer) -> str:
    return f"{name}_{buffer.name}"


def _number(text: FunctionText, register: str, extent: int) -> str:
    """Write a number from a special register; its range lets LLVM divide in 32 bits."""
    name = f"llvm.nvvm.read.ptx.sreg.{register}"
    text.declarations.add(f"declare i32 @{name}()")
    value = text.op(f"call range(i32 0, {extent}) i32 @{name}()")
    return text.op(f"zext nneg i32 {value} to i64")
