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
from codesign.ir.simt.kernel import Barrier, Exchange, Serial, SimtKernel, Statement, When
from codesign.ir.simt.matrix import Mma
from codesign.ir.tensor.layout import Buffer

_libc = ctypes.CDLL(None)
_BARRIER_BYTES = 64


class HostThreads:
    """The dialect of functions `(block, thread, barrier, scratch, shared, operands)`.

    Warps wait at barriers of their own, after the block's, and exchange words in `scratch`. What
    only tensor cores have is not there: kernels for older devices are run.
    """

    def define(self, kernel: SimtKernel, name: str) -> str:
        pointers = [f"ptr %p{number}" for number in range(len(kernel.operands))]
        shared = [f"ptr %s{number}" for number in range(len(kernel.shared))]
        arguments = ", ".join(
            ["i64 %block", "i64 %thread", "ptr %barrier", "ptr %scratch", *shared, *pointers]
        )
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

    def exchange(self, text: FunctionText, word: str, mask: int) -> str:
        warp = text.op("udiv i64 %thread, 32")
        place = text.op(f"mul i64 {warp}, {_BARRIER_BYTES}")
        after = text.op(f"add i64 {place}, {_BARRIER_BYTES}")
        barrier = text.op(f"getelementptr i8, ptr %barrier, i64 {after}")
        own = text.op("getelementptr i32, ptr %scratch, i64 %thread")
        number = text.op(f"xor i64 %thread, {mask}")
        other = text.op(f"getelementptr i32, ptr %scratch, i64 {number}")
        text.do(f"store i32 {word}, ptr {own}")
        text.call("i32", "pthread_barrier_wait", ("ptr", barrier))
        found = text.op(f"load i32, ptr {other}")
        text.call("i32", "pthread_barrier_wait", ("ptr", barrier))
        return found

    def copy(
        self, text: FunctionText, target: str, source: str, size_bytes: int, read_bytes: str
    ) -> None:
        raise NotImplementedError

    def commit(self, text: FunctionText) -> None:
        raise NotImplementedError

    def wait(self, text: FunctionText, pending: int) -> None:
        raise NotImplementedError

    def matrices(
        self, text: FunctionText, source: str, count: int, *, transposed: bool
    ) -> list[str]:
        raise NotImplementedError

    def multiply(
        self, text: FunctionText, kind: Mma, sums: list[str], left: list[str], right: list[str]
    ) -> list[str]:
        raise NotImplementedError


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
    types = [ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * (2 + pointers)]
    entry = ctypes.CFUNCTYPE(None, *types)(engine.get_function_address("kernel"))
    shared = [np.zeros(buffer.size_bytes, np.uint8) for buffer in kernel.shared]
    width = kernel.thread.extent
    scratch = np.zeros(width, np.int32)
    addresses = [array.ctypes.data for array in (scratch, *shared, *operands)]
    if not _waits(kernel.body):
        for block in range(kernel.block.extent):
            for thread in range(width):
                entry(block, thread, None, *addresses)
        return
    counts = [width, *[32] * (width // 32)]
    barriers = ctypes.create_string_buffer(_BARRIER_BYTES * len(counts))
    first = ctypes.addressof(barriers)
    places = [ctypes.c_void_p(first + _BARRIER_BYTES * each) for each in range(len(counts))]
    for place, count in zip(places, counts, strict=True):
        assert _libc.pthread_barrier_init(place, None, count) == 0

    def work(thread: int) -> None:
        for block in range(kernel.block.extent):
            entry(block, thread, first, *addresses)
            _libc.pthread_barrier_wait(places[0])

    workers = [threading.Thread(target=work, args=(number,)) for number in range(width)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for place in places:
        _libc.pthread_barrier_destroy(place)


def _waits(body: tuple[Statement, ...]) -> bool:
    return any(
        isinstance(each, Barrier | Exchange)
        or (isinstance(each, Serial | When) and _waits(each.body))
        for each in body
    )
