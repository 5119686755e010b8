"""The LLVM text of GPU kernels, run on this machine with a real thread for each of theirs."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

import llvmlite.binding as llvm
import numpy as np

from codesign.compiler.backends.gpu.double import define_library
from codesign.compiler.backends.gpu.emit import emit
from codesign.compiler.backends.gpu.legalize import legalize
from codesign.compiler.backends.llvm.target import host, target_machine
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.dtypes import Array
from codesign.ir.simt.kernel import Barrier, Serial, SimtKernel, Statement, When
from codesign.ir.tensor.layout import Buffer

_libc = ctypes.CDLL(None)


class HostThreads:
    """The dialect of functions `(block, thread, barrier, shared, operands)`."""

    def define(self, kernel: SimtKernel, name: str) -> str:
        pointers = [f"ptr %p{number}" for number in range(len(kernel.operands))]
        shared = [f"ptr %s{number}" for number in range(len(kernel.shared))]
        arguments = ", ".join(["i64 %block", "i64 %thread", "ptr %barrier", *shared, *pointers])
        return f"define void @{name}({arguments})"

    def globals(self, kernel: SimtKernel, name: str) -> list[str]:
        return []

    def operand(self, text: FunctionText, number: int) -> str:
        return f"%p{number}"

    def shared(self, text: FunctionText, kernel: SimtKernel, name: str, buffer: Buffer) -> str:
        return f"%s{kernel.shared.index(buffer)}"

    def numbers(self, text: FunctionText, kernel: SimtKernel) -> tuple[str, str]:
        return "%block", "%thread"

    def barrier(self, text: FunctionText) -> None:
        text.call("i32", "pthread_barrier_wait", ("ptr", "%barrier"))


def run_with_threads(kernel: SimtKernel, operands: Sequence[Array]) -> None:
    """Run a kernel's LLVM text on flat arrays; threads are real where the kernel has a barrier."""
    declarations: set[str] = set()
    target = host()
    machine = target_machine(target)
    function = emit(legalize(kernel), "kernel", HostThreads(), declarations)
    library = define_library(declarations)
    header = [f'target datalayout = "{machine.target_data}"', f'target triple = "{target.triple}"']
    module = llvm.parse_assembly("\n".join([*header, *sorted(declarations), library, function, ""]))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    pointers = len(kernel.shared) + len(operands)
    types = [ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * (1 + pointers)]
    entry = ctypes.CFUNCTYPE(None, *types)(engine.get_function_address("kernel"))
    shared = [np.zeros(buffer.size_bytes, np.uint8) for buffer in kernel.shared]
    addresses = [array.ctypes.data for array in (*shared, *operands)]
    width = kernel.thread.extent
    if not _has_barrier(kernel.body):
        for block in range(kernel.block.extent):
            for thread in range(width):
                entry(block, thread, None, *addresses)
        return
    barrier = ctypes.create_string_buffer(64)
    assert _libc.pthread_barrier_init(barrier, None, width) == 0

    def work(thread: int) -> None:
        for block in range(kernel.block.extent):
            entry(block, thread, ctypes.addressof(barrier), *addresses)
            _libc.pthread_barrier_wait(barrier)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(width)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    _libc.pthread_barrier_destroy(barrier)


def _has_barrier(body: tuple[Statement, ...]) -> bool:
    return any(
        isinstance(each, Barrier) or (isinstance(each, Serial | When) and _has_barrier(each.body))
        for each in body
    )
