"""One block to an element: long reductions of which there are few.

Each thread joins every n-th term; then the lanes of a warp join theirs, and the warps. Sums of
floats are so rounded otherwise than from left to right.
"""

from __future__ import annotations

from math import prod
from typing import Final

from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.elementwise import places
from codesign.compiler.backends.gpu.joins import (
    EXCHANGED_BYTES,
    JOINS,
    tree,
    within_block,
)
from codesign.ir.simt.kernel import Barrier, Serial, SimtKernel, Statement, Store, When
from codesign.ir.simt.matrix import WARP
from codesign.ir.tensor.compute import Expr, Guarded, Load, Reduce, apply
from codesign.ir.tensor.index import Axis, Index, at
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.substitute import Substitution

_THREADS: Final = 128
_TERMS: Final = 64
"""Terms from which on a block beats a thread."""


def wants_block(stage: Stage, reduce: Reduce, device: DeviceModel) -> bool:
    """Whether there are too few elements to keep the device busy with a thread each."""
    elements = prod(axis.extent for axis in stage.axes)
    terms = prod(axis.extent for axis in reduce.axes)
    busy = device.multiprocessors * device.threads_per_multiprocessor
    return terms >= _TERMS and elements * _THREADS <= 16 * busy and elements <= device.blocks


def per_block(
    stage: Stage, reduce: Reduce, operands: tuple[Buffer, ...], device: DeviceModel
) -> SimtKernel:
    """Return a kernel in which each block computes one element; `reduce` is the body's only one."""
    terms = prod(axis.extent for axis in reduce.axes)
    threads = min(_THREADS, device.threads_per_block)
    block = Axis("block", prod(axis.extent for axis in stage.axes))
    thread = Axis("thread", threads)
    total = Buffer("total", (1,), reduce.dtype)
    outer = places(stage.axes, at(block))
    own = _own_terms(reduce, outer, thread, total, terms)
    is_first = ((at(thread), 0, 1),)
    if reduce.dtype.size_bytes == EXCHANGED_BYTES:
        other = Buffer("other", (1,), reduce.dtype)
        partial = Buffer("partial", (threads // WARP,), reduce.dtype)
        joined = within_block(reduce.kind, total, other, partial, thread)
        last = When(is_first, (_result(stage, reduce, outer, total),))
        registers: tuple[Buffer, ...] = (total, other)
    else:
        partial = Buffer("partial", (threads,), reduce.dtype)
        store = Store(partial, (at(thread),), Load(total, (Index(),)))
        joined = (store, Barrier(), *tree(reduce.kind, partial, thread))
        last = When(is_first, (_result(stage, reduce, outer, partial),))
        registers = (total,)
    body = (*own, *joined, last)
    return SimtKernel(operands, block, thread, body, shared=(partial,), registers=registers)


def _own_terms(
    reduce: Reduce, outer: dict[Axis, Index], thread: Axis, total: Buffer, terms: int
) -> tuple[Statement, ...]:
    turn = Axis("turn", -(-terms // thread.extent))
    position = at(turn) * thread.extent + at(thread)
    term = Substitution({**outer, **places(reduce.axes, position)}, {}).expr(reduce.body)
    if terms % thread.extent:
        term = Guarded(((position, 0, terms),), term, reduce.initial)
    here = (Index(),)
    joined = apply(JOINS[reduce.kind], Load(total, here), term)
    return (
        Store(total, here, reduce.initial),
        Serial(turn, (Store(total, here, joined),)),
    )


def _result(stage: Stage, reduce: Reduce, outer: dict[Axis, Index], partial: Buffer) -> Store:
    first: Expr = Load(partial, (Index(),))
    chosen = Substitution(outer, {reduce: first})
    return Store(stage.target, tuple(map(chosen.index, stage.index)), chosen.expr(stage.body))
