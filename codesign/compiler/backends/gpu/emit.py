"""Kernels of threads to LLVM: one function, as each thread runs it.

A `Dialect` says what differs between the GPU and the threads of a test on this machine: how a
function begins, where a thread learns its number, where shared memory lies, how threads wait.
"""

from __future__ import annotations

from typing import Protocol, assert_never, final

from codesign.compiler.backends.llvm.arithmetic import memory_type
from codesign.compiler.backends.llvm.scalar import ScalarEmitter
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.dtypes import DType
from codesign.ir.simt.kernel import (
    Barrier,
    CommitCopies,
    Conditions,
    CopyAsync,
    Exchange,
    Leaf,
    LoadMatrix,
    Multiply,
    Serial,
    SimtKernel,
    Statement,
    Store,
    WaitCopies,
    When,
)
from codesign.ir.simt.matrix import Mma
from codesign.ir.tensor.index import Index
from codesign.ir.tensor.layout import Buffer


class Dialect(Protocol):
    """What a kernel's function is made of beside its body."""

    def define(self, kernel: SimtKernel, name: str) -> str:
        """Return the first line of the function; operands are `%p0`, `%p1` and on."""
        ...

    def globals(self, kernel: SimtKernel, name: str) -> list[str]:
        """Return the definitions that go before the function."""
        ...

    def operand(self, text: FunctionText, number: int) -> str:
        """Write a pointer to an operand."""
        ...

    def shared(self, text: FunctionText, kernel: SimtKernel, name: str, buffer: Buffer) -> str:
        """Write a pointer to one of the block's own memories."""
        ...

    def numbers(self, text: FunctionText, kernel: SimtKernel) -> tuple[str, str]:
        """Write the block's and the thread's number, as i64."""
        ...

    def barrier(self, text: FunctionText) -> None:
        """Write the wait for all threads of the block."""
        ...

    def copy(
        self, text: FunctionText, target: str, source: str, size_bytes: int, read_bytes: str
    ) -> None:
        """Begin to copy; of the `size_bytes` that are written only `read_bytes` (i32) are read."""
        ...

    def commit(self, text: FunctionText) -> None:
        """Make a group of copies."""
        ...

    def wait(self, text: FunctionText, pending: int) -> None:
        """Wait for all groups but the last ones."""
        ...

    def matrices(
        self, text: FunctionText, source: str, count: int, *, transposed: bool
    ) -> list[str]:
        """Read matrices of 16-bit elements; return one i32 for each."""
        ...

    def multiply(
        self, text: FunctionText, kind: Mma, sums: list[str], left: list[str], right: list[str]
    ) -> list[str]:
        """Return new sums. Factors are values of `fragment_type`."""
        ...

    def exchange(self, text: FunctionText, word: str, mask: int) -> str:
        """Return another lane's i32."""
        ...


def fragment_type(kind: Mma) -> tuple[str, int]:
    """Return the LLVM type by which factors are handed over, and its elements."""
    match kind.shape.factor:
        case DType.FLOAT16:
            return "<2 x half>", 2
        case DType.INT8:
            return "i32", 4
        case _:
            return "float", 1


def emit(kernel: SimtKernel, name: str, dialect: Dialect, declarations: set[str]) -> str:
    """Return a kernel's function as text, with what it needs before it."""
    text = FunctionText()
    pointers = {
        buffer: dialect.operand(text, number) for number, buffer in enumerate(kernel.operands)
    }
    pointers |= {buffer: dialect.shared(text, kernel, name, buffer) for buffer in kernel.shared}
    for buffer in kernel.registers:
        kind = f"[{buffer.elements} x {memory_type(buffer.dtype)}]"
        pointers[buffer] = text.op(f"alloca {kind}, align 16")
    emitter = ScalarEmitter(text, pointers)
    emitter.axes[kernel.block], emitter.axes[kernel.thread] = dialect.numbers(text, kernel)
    _Body(emitter, dialect).write(kernel.body)
    declarations |= text.declarations
    return "\n".join(
        [
            *dialect.globals(kernel, name),
            f"{dialect.define(kernel, name)} {{",
            "entry:",
            *text.lines,
            "  ret void",
            "}",
        ]
    )


@final
class _Body:
    def __init__(self, emitter: ScalarEmitter, dialect: Dialect) -> None:
        self.emitter = emitter
        self.text = emitter.text
        self.dialect = dialect

    def write(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            match statement:
                case Serial(axis, inner, unroll) if unroll or axis.extent == 1:
                    for turn in range(axis.extent):
                        self.emitter.axes[axis] = str(turn)
                        self.write(inner)
                case Serial(axis, inner, _):
                    with self.text.loop(axis.extent) as (index, _):
                        self.emitter.axes[axis] = index
                        self.write(inner)
                case When(conditions, inner):
                    self._when(conditions, inner)
                case _:
                    self._leaf(statement)

    def _leaf(self, statement: Leaf) -> None:
        text, dialect = self.text, self.dialect
        match statement:
            case Store(buffer, place, value):
                self.emitter.store(buffer, place, value)
            case Barrier():
                dialect.barrier(text)
            case CopyAsync():
                self._copy(statement)
            case CommitCopies():
                dialect.commit(text)
            case WaitCopies(pending):
                dialect.wait(text, pending)
            case LoadMatrix(registers, place, source, index, count, transposed):
                pointer = self.emitter.address(source, index)
                words = dialect.matrices(text, pointer, count, transposed=transposed)
                self._set(registers, place, "i32", words)
            case Multiply():
                self._multiply(statement)
            case Exchange(target, place, source, source_place, mask):
                (word,) = self._get(source, source_place, "i32", 1)
                self._set(target, place, "i32", [dialect.exchange(text, word, mask)])
            case _:
                assert_never(statement)

    def _copy(self, copy: CopyAsync) -> None:
        size = copy.elements * copy.target.dtype.size_bytes
        target = self.emitter.address(copy.target, copy.index)
        holds = self.emitter.holds(copy.conditions)
        read = str(size)
        if holds != "true":
            read = self.text.op(f"select i1 {holds}, i32 {size}, i32 0")
        source = self.emitter.address(copy.source, copy.source_index)
        if holds != "true":
            begin = self.emitter.pointers[copy.source]
            source = self.text.op(f"select i1 {holds}, ptr {source}, ptr {begin}")
        self.dialect.copy(self.text, target, source, size, read)

    def _multiply(self, each: Multiply) -> None:
        kind = each.kind
        factor, elements = fragment_type(kind)
        sum_type = "i32" if kind is Mma.S8 else "float"
        sums = self._get(each.sums, each.sums_place, sum_type, kind.sums_elements)
        left = self._get(each.left, each.left_place, factor, kind.left_elements // elements)
        right = self._get(each.right, each.right_place, factor, kind.right_elements // elements)
        found = self.dialect.multiply(self.text, kind, sums, left, right)
        self._set(each.sums, each.sums_place, sum_type, found)

    def _get(self, buffer: Buffer, place: tuple[Index, ...], kind: str, count: int) -> list[str]:
        """Read words of 4 bytes from registers."""
        pointers = self._words(buffer, place, count)
        return [self.text.op(f"load {kind}, ptr {pointer}, align 4") for pointer in pointers]

    def _set(self, buffer: Buffer, place: tuple[Index, ...], kind: str, values: list[str]) -> None:
        pointers = self._words(buffer, place, len(values))
        for value, pointer in zip(values, pointers, strict=True):
            self.text.do(f"store {kind} {value}, ptr {pointer}, align 4")

    def _words(self, buffer: Buffer, place: tuple[Index, ...], count: int) -> list[str]:
        first = self.emitter.address(buffer, place)
        return [
            self.text.op(f"getelementptr i8, ptr {first}, i64 {4 * word}") for word in range(count)
        ]

    def _when(self, conditions: Conditions, inner: tuple[Statement, ...]) -> None:
        holds = self.emitter.holds(conditions)
        if holds == "true":
            self.write(inner)
            return
        inside, after = self.text.fresh(), self.text.fresh()
        self.text.do(f"br i1 {holds}, label %{inside}, label %{after}")
        self.text.label(inside)
        self.write(inner)
        self.text.do(f"br label %{after}")
        self.text.label(after)
