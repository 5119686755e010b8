"""Loop nests in index notation to LLVM: one function for a `LoopKernel`.

The innermost loop runs a vector at a time where every access along it is contiguous or uniform, and
ends with ever shorter vectors.
Neighbouring loops that walk memory without a gap become one.
"""

from __future__ import annotations

from typing import assert_never

from codesign.compiler.backends.llvm.scalar import ScalarEmitter
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.llvm.vectorize import is_vectorizable
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
from codesign.ir.tensor.index import Axis, Index
from codesign.ir.tensor.kernel import LoopKernel, Stage
from codesign.ir.tensor.layout import Buffer


def emit_loops(kernel: LoopKernel, text: FunctionText, lanes: int) -> None:
    """Write the body of a loop kernel's function; its operands are `%p0`, `%p1` and on."""
    pointers = {buffer: f"%p{place}" for place, buffer in enumerate(kernel.operands)}
    for stage in kernel.stages:
        _emit_stage(stage, text, pointers, lanes)


def _emit_stage(stage: Stage, text: FunctionText, pointers: dict[Buffer, str], lanes: int) -> None:
    emitter = ScalarEmitter(text, pointers)
    extents = _collapsed(stage)
    inner = stage.axes[-1] if stage.axes else None
    if inner is None:
        emitter.store(stage.target, stage.index, stage.body)
        return
    extent = extents[inner]
    is_vector = (
        extent >= lanes
        and stage.target.address(stage.index).factor(inner) == 1
        and is_vectorizable(stage.body, inner)
    )
    outer = [axis for axis in stage.axes[:-1] if axis in extents]
    for axis in stage.axes[:-1]:
        emitter.axes[axis] = "0"

    def over(place: int) -> None:
        if place < len(outer):
            with text.loop(extents[outer[place]]) as (index, _):
                emitter.axes[outer[place]] = index
                over(place + 1)
            return
        _innermost(stage, emitter, inner, extent, lanes if is_vector else 1)

    over(0)


def _innermost(stage: Stage, emitter: ScalarEmitter, axis: Axis, extent: int, lanes: int) -> None:
    """Write the innermost loop; what whole vectors leave is done by ever shorter ones."""
    text = emitter.text
    done = 0
    while done < extent:
        count = (extent - done) // lanes * lanes
        if count:
            emitter.lanes, emitter.vector_axis = lanes, axis if lanes > 1 else None
            with text.loop(count, step=lanes) as (index, _):
                emitter.axes[axis] = _sum(text, index, done)
                emitter.store(stage.target, stage.index, stage.body)
        done += count
        lanes //= 2
    emitter.lanes, emitter.vector_axis = 1, None


def _sum(text: FunctionText, index: str, number: int) -> str:
    if number == 0:
        return index
    return str(number) if index == "0" else text.op(f"add i64 {index}, {number}")


def _collapsed(stage: Stage) -> dict[Axis, int]:
    """Extent of every loop that is left; an axis that is missing stays 0."""
    addresses = [stage.target.address(stage.index)]
    fixed: list[Index] = []
    _collect(stage.body, addresses, fixed)
    extents: dict[Axis, int] = {}
    if not stage.axes:
        return extents
    inner = stage.axes[-1]
    extents[inner] = inner.extent
    for axis in reversed(stage.axes[:-1]):
        joins = all(_joins(each, axis, inner, extents[inner]) for each in addresses)
        if joins and not any(each.uses(axis) or each.uses(inner) for each in fixed):
            extents[inner] *= axis.extent
        else:
            inner = axis
            extents[inner] = axis.extent
    return extents


def _joins(address: Index, outer: Axis, inner: Axis, extent: int) -> bool:
    if outer.extent == 1:
        return True
    far, near = address.factor(outer), address.factor(inner)
    if far is None or near is None:
        return False
    if inner.extent == 1:
        return False
    return far == near * extent


def _collect(expr: Expr, addresses: list[Index], fixed: list[Index]) -> None:
    seen: set[Expr] = set()
    pending = [expr]
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        match each:
            case Load(buffer, index):
                address = buffer.address(index)
                addresses.append(address)
                fixed += [
                    Index(((atom, 1),)) for atom, _ in address.terms if not isinstance(atom, Axis)
                ]
            case Apply(_, args, _):
                pending += args
            case Convert(value, _):
                pending.append(value)
            case Position(index):
                fixed.append(index)
            case Guarded(conditions, body, otherwise):
                fixed += [index for index, _, _ in conditions]
                pending += [body, otherwise]
            case Reduce(_, _, body, _):
                pending.append(body)
            case Literal() | Accumulator():
                pass
            case _:
                assert_never(each)
