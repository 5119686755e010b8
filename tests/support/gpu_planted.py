"""Kernels with a fault planted in them, of the kinds that a GPU does not tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from codesign.compiler.backends.gpu.device import DEFAULT
from codesign.compiler.backends.gpu.lower import schedule
from codesign.dtypes import Array, DType
from codesign.ir.simt.kernel import Barrier, Serial, SimtKernel, Statement, Store, When
from codesign.ir.tensor.compute import Fn, Guarded, Literal, Load, Reduce, Reduction, apply
from codesign.ir.tensor.index import Axis, Index, at, constant
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer

_RACE: Final = "race"
_OUTSIDE: Final = "access out of bounds"
_PARTED: Final = "divergent barrier"


@final
@dataclass(frozen=True)
class Planted:
    """A faulty kernel, the sizes of its operands in elements, and the kind of its fault."""

    kernel: SimtKernel
    kind: str

    def operands(self) -> list[Array]:
        """Return arrays for the operands."""
        return [np.ones(buffer.elements, buffer.dtype.numpy) for buffer in self.kernel.operands]


def elementwise() -> SimtKernel:
    """`target = x + x` for 1,000 elements: the last block is not full."""
    x, target = Buffer("x", (1000,), DType.FLOAT32), Buffer("target", (1000,), DType.FLOAT32)
    axis = Axis("i", 1000)
    value = Load(x, (at(axis),))
    stage = Stage(target, (at(axis),), (axis,), apply(Fn.ADD, value, value))
    return schedule(stage, (x, target), DEFAULT)


def reduction() -> SimtKernel:
    """Three sums of 1,000 terms, a block to each."""
    x, target = Buffer("x", (3, 1000), DType.FLOAT32), Buffer("target", (3,), DType.FLOAT32)
    row, term = Axis("row", 3), Axis("term", 1000)
    total = Reduce(Reduction.SUM, (term,), Load(x, (at(row), at(term))), Literal(0, DType.FLOAT32))
    return schedule(Stage(target, (at(row),), (row,), total), (x, target), DEFAULT)


def product() -> SimtKernel:
    """A product of 40 x 48 with 56 x 48 matrices in tiles that do not divide them."""
    a, b = Buffer("a", (40, 48), DType.FLOAT32), Buffer("b", (56, 48), DType.FLOAT32)
    target = Buffer("target", (40, 56), DType.FLOAT32)
    m, n, k = Axis("m", 40), Axis("n", 56), Axis("k", 48)
    terms = apply(Fn.MULTIPLY, Load(a, (at(m), at(k))), Load(b, (at(n), at(k))))
    total = Reduce(Reduction.SUM, (k,), terms, Literal(0, DType.FLOAT32))
    return schedule(Stage(target, (at(m), at(n)), (m, n), total), (a, b, target), DEFAULT)


Change = Callable[[Statement], "Statement | None"]


def changed(kernel: SimtKernel, change: Change) -> SimtKernel:
    """Return a kernel with each statement changed, from outside to inside; None leaves it out."""

    def body(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        kept = [new for each in statements if (new := change(each)) is not None]
        return tuple(
            replace(each, body=body(each.body)) if isinstance(each, Serial | When) else each
            for each in kept
        )

    return replace(kernel, body=body(kernel.body))


def _without_barrier(number: int) -> Change:
    """Leave out one barrier, by its place in the text."""
    seen = iter(range(1000))

    def change(statement: Statement) -> Statement | None:
        return None if isinstance(statement, Barrier) and next(seen) == number else statement

    return change


def _partly_reached(thread: Axis, number: int) -> Change:
    """Let only the first threads reach one barrier."""
    seen = iter(range(1000))

    def change(statement: Statement) -> Statement:
        if isinstance(statement, Barrier) and next(seen) == number:
            return When(((at(thread), 0, thread.extent // 2),), (statement,))
        return statement

    return change


def _unconditional(statement: Statement) -> Statement:
    if isinstance(statement, When):
        return Serial(Axis("once", 1), statement.body)
    return statement


def _unguarded(statement: Statement) -> Statement:
    match statement:
        case Store(buffer, index, Guarded(_, value, _)):
            return Store(buffer, index, value)
        case _:
            return statement


def _stored_at(buffer: str, place: Callable[[tuple[Index, ...]], tuple[Index, ...]]) -> Change:
    def change(statement: Statement) -> Statement:
        match statement:
            case Store(target, index, value) if target.name == buffer:
                return Store(target, place(index), value)
            case _:
                return statement

    return change


def _one_too_far(index: tuple[Index, ...]) -> tuple[Index, ...]:
    return (*index[:-1], index[-1] + 1)


def _one_place(index: tuple[Index, ...]) -> tuple[Index, ...]:
    return tuple(constant(0) for _ in index)


def planted() -> Mapping[str, Planted]:
    """Return twelve faulty kernels by what is wrong with them."""
    simple, sums, tiles = elementwise(), reduction(), product()
    return {
        "product: no barrier between fetching and multiplying": Planted(
            changed(tiles, _without_barrier(0)), _RACE
        ),
        "product: no barrier between multiplying and the next slice": Planted(
            changed(tiles, _without_barrier(1)), _RACE
        ),
        "sum: no barrier before the tree": Planted(changed(sums, _without_barrier(0)), _RACE),
        "sum: no barrier within the tree": Planted(changed(sums, _without_barrier(2)), _RACE),
        "sum: all threads join, not the first half": Planted(
            changed(sums, _unconditional), _OUTSIDE
        ),
        "sum: partial sums in one place": Planted(
            changed(sums, _stored_at("partial", _one_place)), _RACE
        ),
        "elementwise: no condition for the last block": Planted(
            changed(simple, _unconditional), _OUTSIDE
        ),
        "elementwise: stores one too far": Planted(
            changed(simple, _stored_at("target", _one_too_far)), _OUTSIDE
        ),
        "elementwise: every block stores to one place": Planted(
            changed(simple, _stored_at("target", _one_place)), _RACE
        ),
        "product: fetches beyond the matrix": Planted(changed(tiles, _unguarded), _OUTSIDE),
        "product: half of a block reaches a barrier": Planted(
            changed(tiles, _partly_reached(tiles.thread, 0)), _PARTED
        ),
        "sum: half of a block reaches a barrier": Planted(
            changed(sums, _partly_reached(sums.thread, 1)), _PARTED
        ),
    }
