"""Kernels as text: what is computed, in index notation and in the order of its loops.

for i0 in 3, i1 in 5:
  target[i0, i1] = maximum(operand0[i0, i1], 0.0)
"""

from __future__ import annotations

from typing import assert_never

from codesign.ir.tensor.compute import (
    Accumulator,
    Apply,
    Convert,
    Expr,
    Guarded,
    Literal,
    Load,
    Position,
    Reduce,
)
from codesign.ir.tensor.index import Atom, Axis, Clamp, Element, FloorDiv, Index, Modulo
from codesign.ir.tensor.kernel import Contraction, Depthwise, Kernel, LoopKernel, Stage
from codesign.ir.tensor.layout import Buffer


def kernel_text(kernel: Kernel) -> str:
    """Return a kernel as text, without a trailing newline."""
    match kernel:
        case LoopKernel():
            return "\n".join(_stage(stage) for stage in kernel.stages)
        case Contraction() | Depthwise():
            return _blocked(kernel)
        case _:
            assert_never(kernel)


def buffer_text(buffer: Buffer) -> str:
    """Return a buffer with its type and, where it is not plain, its layout."""
    dims = ", ".join(str(extent) for extent in buffer.shape)
    text = f"{buffer.name}: Tensor[({dims}), {buffer.dtype}]"
    layout = buffer.layout
    notes = [f"block {layout.block}"] if layout.block > 1 else []
    notes += [f"halo {layout.halo} of {layout.fill}"] if layout.has_halo else []
    notes += [f"as {layout.storage}"] if layout.storage else []
    return f"{text} ({'; '.join(notes)})" if notes else text


def expr_text(expr: Expr) -> str:
    """Return a scalar expression as text."""
    match expr:
        case Literal(value, _):
            return str(value)
        case Load(buffer, index):
            return f"{buffer.name}[{_indices(index)}]"
        case Apply(function, args, _):
            return f"{function}({', '.join(expr_text(arg) for arg in args)})"
        case Convert(value, dtype):
            return f"{dtype}({expr_text(value)})"
        case Position(index):
            return index_text(index)
        case Guarded(conditions, body, otherwise):
            tests = " and ".join(
                f"{low} <= {index_text(index)} < {high}" for index, low, high in conditions
            )
            return f"({expr_text(body)} if {tests} else {expr_text(otherwise)})"
        case Reduce(kind, axes, body, _):
            over = ", ".join(f"{axis.name} in {axis.extent}" for axis in axes)
            return f"{kind}({expr_text(body)} for {over})"
        case Accumulator():
            return "accumulator"
        case _:
            assert_never(expr)


def index_text(index: Index) -> str:
    """Return an index as text."""
    parts = [
        _atom(atom) if factor == 1 else f"{factor} * {_atom(atom)}" for atom, factor in index.terms
    ]
    if index.constant or not parts:
        parts.append(str(index.constant))
    return " + ".join(parts)


def _atom(atom: Atom) -> str:
    match atom:
        case Axis():
            return atom.name
        case FloorDiv(value, divisor):
            return f"({index_text(value)}) // {divisor}"
        case Modulo(value, divisor):
            return f"({index_text(value)}) % {divisor}"
        case Clamp(value, low, high):
            return f"min(max({index_text(value)}, {low}), {high})"
        case Element(expr):
            assert isinstance(
                expr, Literal | Load | Apply | Convert | Position | Guarded | Reduce | Accumulator
            ), "an element of an index is a scalar expression"
            return f"[{expr_text(expr)}]"
        case _:
            assert_never(atom)


def _indices(index: tuple[Index, ...]) -> str:
    return ", ".join(index_text(each) for each in index)


def _stage(stage: Stage) -> str:
    assignment = f"{stage.target.name}[{_indices(stage.index)}] = {expr_text(stage.body)}"
    if not stage.axes:
        return assignment
    loops = ", ".join(f"{axis.name} in {axis.extent}" for axis in stage.axes)
    return f"for {loops}:\n  {assignment}"


def _blocked(kernel: Contraction | Depthwise) -> str:
    window = kernel.window
    height, width = window.size
    kind = "depthwise"
    if isinstance(kernel, Contraction):
        kind = f"contraction (tile {kernel.tile_pixels} x {kernel.tile_vectors})"
    lines = [f"{kind}: window {height} x {width}, strides {window.strides}"]
    buffers = (kernel.data, kernel.weight, *kernel.operands, kernel.target)
    lines += [f"  {buffer_text(buffer)}" for buffer in buffers]
    lines.append(f"  {kernel.target.name}[…] = {expr_text(kernel.epilogue)}")
    return "\n".join(lines)
