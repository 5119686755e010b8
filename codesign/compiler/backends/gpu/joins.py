"""How threads join what each of them has reduced: through registers in a warp, then by memory."""

from __future__ import annotations

from typing import Final

from codesign.ir.simt.kernel import Barrier, Exchange, Serial, Statement, Store, When
from codesign.ir.simt.matrix import WARP
from codesign.ir.tensor.compute import Fn, Load, Reduction, apply
from codesign.ir.tensor.index import Axis, Index, at, constant
from codesign.ir.tensor.layout import Buffer

JOINS: Final = {
    Reduction.SUM: Fn.ADD,
    Reduction.PRODUCT: Fn.MULTIPLY,
    Reduction.MAXIMUM: Fn.MAXIMUM,
    Reduction.MINIMUM: Fn.MINIMUM,
}

EXCHANGED_BYTES: Final = 4
"""Size of the elements that lanes exchange."""

_HERE: Final = (Index(),)


def within_warp(kind: Reduction, total: Buffer, other: Buffer) -> tuple[Statement, ...]:
    """Join the lanes' `total`, a register; all lanes have the result then. `other` is spare."""
    statements: list[Statement] = []
    distance = WARP // 2
    while distance:
        joined = apply(JOINS[kind], Load(total, _HERE), Load(other, _HERE))
        statements += [
            Exchange(other, _HERE, total, _HERE, distance),
            Store(total, _HERE, joined),
        ]
        distance //= 2
    return tuple(statements)


def within_block(
    kind: Reduction, total: Buffer, other: Buffer, partial: Buffer, thread: Axis
) -> tuple[Statement, ...]:
    """Join all threads' `total`; `partial` is shared, an element for each warp, used once."""
    warps = thread.extent // WARP
    turn = Axis("warp", warps - 1)
    joined = apply(JOINS[kind], Load(total, _HERE), Load(partial, (at(turn) + 1,)))
    leaders = ((at(thread) % WARP, 0, 1),)
    return (
        *within_warp(kind, total, other),
        When(leaders, (Store(partial, (at(thread) // WARP,), Load(total, _HERE)),)),
        Barrier(),
        Store(total, _HERE, Load(partial, (constant(0),))),
        *((Serial(turn, (Store(total, _HERE, joined),), unroll=True),) if warps > 1 else ()),
    )


def tree(kind: Reduction, partial: Buffer, thread: Axis) -> tuple[Statement, ...]:
    """Join a block's `partial`, an element for each thread, into its first element."""
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
