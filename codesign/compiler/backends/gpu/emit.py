"""Kernels of threads to LLVM: one function, as each thread runs it.

A `Dialect` says what differs between the GPU and the threads of a test on this machine: how a
function begins, where a thread learns its number, where shared memory lies, how threads wait.
"""

from __future__ import annotations

from typing import Protocol, assert_never, final

from codesign.compiler.backends.llvm.arithmetic import memory_type
from codesign.compiler.backends.llvm.scalar import ScalarEmitter
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.ir.simt.kernel import Barrier, Conditions, Serial, SimtKernel, Statement, Store, When
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
                case Store(buffer, place, value):
                    self.emitter.store(buffer, place, value)
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
                case Barrier():
                    self.dialect.barrier(self.text)
                case _:
                    assert_never(statement)

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
