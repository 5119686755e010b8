"""One block to an element: long reductions of which there are few.

Each thread joins every n-th term; then half of the threads join their neighbour's value, and half
of these, until one is left. Sums of floats are so rounded otherwise than from left to right.
"""

from __future__ import annotations

from math import prod
from typing import Final

from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.elementwise import places
from codesign.ir.simt.kernel import Barrier, Serial, SimtKernel, Statement, Store, When
from codesign.ir.tensor.compute import Expr, Fn, Guarded, Load, Reduce, Reduction, apply
from codesign.ir.tensor.index import Axis, Index, at
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.substitute import Substitution

JOINS: Final = {
    Reduction.SUM: Fn.ADD,
    Reduction.PRODUCT: Fn.MULTIPLY,
    Reduction.MAXIMUM: Fn.MAXIMUM,
    Reduction.MINIMUM: Fn.MINIMUM,
}
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
    partial = Buffer("partial", (threads,), reduce.dtype)
    total = Buffer("total", (1,), reduce.dtype)
    outer = places(stage.axes, at(block))
    return SimtKernel(
        operands,
        block,
        thread,
        (
            *_own_terms(reduce, outer, thread, total, terms),
            Store(partial, (at(thread),), Load(total, (Index(),))),
            Barrier(),
            *_tree(reduce.kind, partial, thread),
            When(((at(thread), 0, 1),), (_result(stage, reduce, outer, partial),)),
        ),
        shared=(partial,),
        registers=(total,),
    )


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


def _tree(kind: Reduction, partial: Buffer, thread: Axis) -> tuple[Statement, ...]:
    statements: list[Statement] = []
    left = thread.extent
    while left > 1:
        half = -(-left // 2)
        joined = apply(
            JOINS[kind], Load(partial, (at(thread),)), Load(partial, (at(thread) + half,))
        )
        step = Store(partial, (at(thread),), joined)
        statements += [When(((at(thread), 0, left - half),), (step,)), Barrier()]
        left = half
    return tuple(statements)


def _result(stage: Stage, reduce: Reduce, outer: dict[Axis, Index], partial: Buffer) -> Store:
    first: Expr = Load(partial, (Index(),))
    chosen = Substitution(outer, {reduce: first})
    return Store(stage.target, tuple(map(chosen.index, stage.index)), chosen.expr(stage.body))
