"""Kernels of threads as text.

kernel 12 blocks x 256 threads
  operand operand0: Tensor[(3072), float32]
  operand target: Tensor[(3072), float32]
  target[256 * block + thread] = maximum(operand0[256 * block + thread], 0.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

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
from codesign.ir.tensor.index import Index
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.printer import buffer_text, expr_text, index_text


def simt_text(kernel: SimtKernel) -> str:
    """Return a kernel as text, without a trailing newline."""
    lines = [f"kernel {kernel.block.extent} blocks x {kernel.thread.extent} threads"]
    spaces = (
        ("operand", kernel.operands),
        ("shared", kernel.shared),
        ("registers", kernel.registers),
    )
    for space, buffers in spaces:
        lines += [f"  {space} {buffer_text(buffer)}" for buffer in buffers]
    lines += _lines(kernel.body, "  ")
    return "\n".join(lines)


def _lines(body: tuple[Statement, ...], indent: str) -> Iterator[str]:
    for statement in body:
        match statement:
            case Serial(axis, inner, unroll):
                note = " unrolled" if unroll else ""
                yield f"{indent}for {axis.name} in {axis.extent}{note}:"
                yield from _lines(inner, indent + "  ")
            case When(conditions, inner):
                yield f"{indent}when {_tests(conditions)}:"
                yield from _lines(inner, indent + "  ")
            case _:
                yield indent + _leaf(statement)


def _leaf(statement: Leaf) -> str:
    match statement:
        case Store(buffer, index, value):
            return f"{_place(buffer, index)} = {expr_text(value)}"
        case Barrier():
            return "barrier"
        case CopyAsync(target, index, source, source_index, elements, conditions):
            note = f" if {_tests(conditions)} else zeros" if conditions else ""
            return (
                f"copy {elements} to {_place(target, index)} from "
                f"{_place(source, source_index)}{note}"
            )
        case CommitCopies():
            return "commit"
        case WaitCopies(pending):
            return f"wait for all but {pending}"
        case LoadMatrix(registers, place, source, index, count, transposed):
            note = " transposed" if transposed else ""
            return f"{_place(registers, place)} = {count} matrices{note} {_place(source, index)}"
        case Multiply(kind, sums, place, left, left_place, right, right_place):
            return (
                f"{_place(sums, place)} += {_place(left, left_place)} * "
                f"{_place(right, right_place)} by {kind.name}"
            )
        case Exchange(target, place, source, source_place, mask):
            return f"{_place(target, place)} = {_place(source, source_place)} of lane ^ {mask}"
        case _:
            assert_never(statement)


def _place(buffer: Buffer, index: tuple[Index, ...]) -> str:
    return f"{buffer.name}[{', '.join(map(index_text, index))}]"


def _tests(conditions: Conditions) -> str:
    return " and ".join(f"{low} <= {index_text(index)} < {high}" for index, low, high in conditions)
