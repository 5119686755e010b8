"""Which of its operands, buffers in global memory, a kernel reads and which it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from codesign.ir.simt.kernel import (
    Barrier,
    CommitCopies,
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
from codesign.ir.tensor.compute import Expr, Position
from codesign.ir.tensor.index import Index
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.uses import loads_of


def written_by(kernel: SimtKernel) -> frozenset[Buffer]:
    """Return the operands of which a kernel writes elements."""
    stores = (leaf for leaf, _ in _leaves(kernel.body, ()) if isinstance(leaf, Store))
    return frozenset(store.buffer for store in stores) & frozenset(kernel.operands)


def read_by(kernel: SimtKernel) -> frozenset[Buffer]:
    """Return the operands of which a kernel reads elements, be it to find out a place."""
    found: set[Buffer] = set()
    for leaf, tested in _leaves(kernel.body, ()):
        if isinstance(leaf, CopyAsync):
            found.add(leaf.source)
        if isinstance(leaf, Store):
            found.update(_loaded(leaf.value))
        for index in (*tested, *_indices(leaf)):
            found.update(_loaded(Position(index)))
    return frozenset(found) & frozenset(kernel.operands)


def _leaves(
    body: tuple[Statement, ...], tested: tuple[Index, ...]
) -> Iterator[tuple[Leaf, tuple[Index, ...]]]:
    """Yield each statement that has no body, and what the conditions around it test."""
    for statement in body:
        match statement:
            case Serial(_, inner, _):
                yield from _leaves(inner, tested)
            case When(conditions, inner):
                yield from _leaves(inner, (*tested, *(index for index, _, _ in conditions)))
            case _:
                yield statement, tested


def _indices(leaf: Leaf) -> tuple[Index, ...]:
    match leaf:
        case Store(_, index, _):
            return index
        case CopyAsync(_, index, _, source_index, _, conditions):
            return (*index, *source_index, *(each for each, _, _ in conditions))
        case LoadMatrix(_, place, _, index, _, _):
            return (*place, *index)
        case Multiply(_, _, sums_place, _, left_place, _, right_place):
            return (*sums_place, *left_place, *right_place)
        case Exchange(_, place, _, source_place, _):
            return (*place, *source_place)
        case Barrier() | CommitCopies() | WaitCopies():
            return ()
        case _:
            assert_never(leaf)


def _loaded(expr: Expr) -> Iterator[Buffer]:
    return (load.buffer for load in loads_of(expr))
