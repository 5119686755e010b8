"""Kernels of threads as text.

kernel 12 blocks x 256 threads
  target[256 * block + thread] = maximum(operand0[256 * block + thread], 0.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from codesign.ir.simt.kernel import Barrier, Serial, SimtKernel, Statement, Store, When
from codesign.ir.tensor.printer import buffer_text, expr_text, index_text


def simt_text(kernel: SimtKernel) -> str:
    """Return a kernel as text, without a trailing newline."""
    lines = [f"kernel {kernel.block.extent} blocks x {kernel.thread.extent} threads"]
    for space, buffers in (("shared", kernel.shared), ("registers", kernel.registers)):
        lines += [f"  {space} {buffer_text(buffer)}" for buffer in buffers]
    lines += _lines(kernel.body, "  ")
    return "\n".join(lines)


def _lines(body: tuple[Statement, ...], indent: str) -> Iterator[str]:
    for statement in body:
        match statement:
            case Store(buffer, index, value):
                place = ", ".join(map(index_text, index))
                yield f"{indent}{buffer.name}[{place}] = {expr_text(value)}"
            case Barrier():
                yield f"{indent}barrier"
            case Serial(axis, inner, unroll):
                note = " unrolled" if unroll else ""
                yield f"{indent}for {axis.name} in {axis.extent}{note}:"
                yield from _lines(inner, indent + "  ")
            case When(conditions, inner):
                tests = " and ".join(
                    f"{low} <= {index_text(index)} < {high}" for index, low, high in conditions
                )
                yield f"{indent}when {tests}:"
                yield from _lines(inner, indent + "  ")
            case _:
                assert_never(statement)
