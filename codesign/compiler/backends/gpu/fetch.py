"""How slices of a factor come into shared memory: by copies ahead of time, or through registers.

A slice is `extent` places along m or n by `depth` along k. Rows in memory end with 16 bytes that
are not used, so that the rows of a matrix lie in different banks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final, final

from codesign.compiler.backends.gpu.contraction import limits, runs_along
from codesign.compiler.backends.gpu.elementwise import places
from codesign.compiler.backends.gpu.factor import COPIED_BYTES, Copied, copied
from codesign.ir.simt.kernel import Conditions, CopyAsync, Serial, Statement, Store, When
from codesign.ir.tensor.compute import Expr, Guarded, Literal, Load
from codesign.ir.tensor.index import Axis, Index, at, unflatten
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.substitute import Substitution

PAD_BYTES: Final = 16


@final
@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """A factor, its memory (stage, row, column), and the threads that fill it.

    `across` says that rows run along m or n, not along k. What no copy takes goes by `held`,
    registers in which elements wait until a stage is free.
    """

    factor: Expr
    copied: Copied | None
    outer: tuple[Axis, ...]
    k: tuple[Axis, ...]
    extent: int
    depth: int
    across: bool
    memory: Buffer
    held: Buffer | None
    thread: Axis

    @classmethod
    def of(
        cls,
        name: str,
        factor: Expr,
        outer: tuple[Axis, ...],
        k: tuple[Axis, ...],
        thread: Axis,
        *,
        stages: int,
        extent: int,
        depth: int,
        may_turn: bool,
    ) -> Fetch:
        """Return how a factor comes; `may_turn` says that its readers can take rows across."""
        size = factor.dtype.size_bytes
        copy = copied(factor, (k, outer))
        along_k = runs_along(factor, k)
        if copy is not None and copy.elements > 1:
            along_k = copy.axis in k
        across = not along_k and may_turn
        if copy is not None and not along_k and not across and copy.elements > 1:
            copy = copy.one_by_one() if size == COPIED_BYTES[-1] else None
        pad = PAD_BYTES // size
        rows = (depth, extent + pad) if across else (extent, depth + pad)
        turns = -(-extent * depth // thread.extent)
        held = None if copy is not None else Buffer(f"{name}_held", (turns,), factor.dtype)
        memory = Buffer(name, (stages, *rows), factor.dtype)
        return cls(factor, copy, outer, k, extent, depth, across, memory, held, thread)

    def begin(
        self, batch: Mapping[Axis, Index], first: Index, k: Index, stage: Index
    ) -> tuple[Statement, ...]:
        """Begin to fetch the slice at `first` and `k`; elements beyond the factor are 0."""
        width = 1 if self.copied is None else self.copied.elements
        turn, place, depth, inside = self._turns(width)
        row, column = first + place, k + depth
        axes = {**batch, **places(self.outer, row), **places(self.k, column)}
        within = limits((row, _extent(self.outer)), (column, _extent(self.k)))
        if self.copied is not None:
            index, conditions = self.copied.at(axes, within)
            where = self._where(stage, place, depth)
            copy = CopyAsync(self.memory, where, self.copied.buffer, index, width, conditions)
            return (Serial(turn, under(inside, copy), unroll=True),)
        assert self.held is not None, "what is not copied is held"
        element = Substitution(axes, {}).expr(self.factor)
        if within or inside:
            element = Guarded((*within, *inside), element, Literal(0, element.dtype))
        return (Serial(turn, (Store(self.held, (at(turn),), element),), unroll=True),)

    def finish(self, stage: Index) -> tuple[Statement, ...]:
        """Store what is held in registers."""
        if self.held is None:
            return ()
        turn, place, depth, inside = self._turns(1)
        store = Store(self.memory, self._where(stage, place, depth), Load(self.held, (at(turn),)))
        return (Serial(turn, under(inside, store), unroll=True),)

    def _turns(self, width: int) -> tuple[Axis, Index, Index, Conditions]:
        """How threads share a slice: turns, place along m or n, depth, conditions."""
        pieces = self.extent * self.depth // width
        turn = Axis("turn", -(-pieces // self.thread.extent))
        position = at(turn) * self.thread.extent + at(self.thread)
        along_k = not self.across and (width > 1 or runs_along(self.factor, self.k))
        if along_k:
            place, depth = unflatten(position, (self.extent, self.depth // width))
            depth = depth * width
        else:
            depth, place = unflatten(position, (self.depth, self.extent // width))
            place = place * width
        return turn, place, depth, limits((position, pieces))

    def _where(self, stage: Index, place: Index, depth: Index) -> tuple[Index, ...]:
        return (stage, depth, place) if self.across else (stage, place, depth)


def under(conditions: Conditions, *body: Statement) -> tuple[Statement, ...]:
    """Return statements that run only where the conditions hold."""
    return (When(conditions, body),) if conditions and body else body


def unrolled(axes: tuple[Axis, ...], *body: Statement) -> Statement:
    """Return nested loops that are written out."""
    statements: tuple[Statement, ...] = body
    for axis in reversed(axes):
        statements = (Serial(axis, statements, unroll=True),)
    (statement,) = statements
    return statement


def _extent(axes: tuple[Axis, ...]) -> int:
    return prod(axis.extent for axis in axes)
