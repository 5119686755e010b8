"""A kernel as every thread sees it, in index notation over the block's and the thread's number.

statement := buffer[index, …] = expr | for axis in extent { statements } | barrier
           | when (low <= index < high and …) { statements }
           | copy … | commit | wait | matrices … | multiply … | exchange …

The last four kinds belong to a warp: 32 neighbouring threads reach them together or not at all.

Blocks and threads are numbered in one dimension; kernels of more dimensions divide these numbers.
So no limit of a grid but the greatest is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

from codesign.ir.simt.matrix import Mma
from codesign.ir.tensor.compute import Expr
from codesign.ir.tensor.index import Axis, Index
from codesign.ir.tensor.layout import Buffer

Conditions: TypeAlias = tuple[tuple[Index, int, int], ...]
"""All of `low <= index < high`."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """`buffer[index] = value`."""

    buffer: Buffer
    index: tuple[Index, ...]
    value: Expr


@final
@dataclass(frozen=True, slots=True, eq=False)
class Serial:
    """Run the body for each value of an axis, in order; written out where `unroll` says so.

    Indices into registers are constants once the loops that are written out are.
    """

    axis: Axis
    body: tuple[Statement, ...]
    unroll: bool = False


@final
@dataclass(frozen=True, slots=True, eq=False)
class When:
    """Run the body in those threads for which all conditions hold."""

    conditions: Conditions
    body: tuple[Statement, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """Wait for all threads of the block; what they wrote to memory is seen after it."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class CopyAsync:
    """Begin to copy neighbours from global to shared memory: 4, 8 or 16 bytes, so aligned.

    Where a condition does not hold nothing is read and zeros arrive. Until the thread has waited
    for the copy nobody may touch the target; then the thread may, others after a barrier.
    """

    target: Buffer
    index: tuple[Index, ...]
    source: Buffer
    source_index: tuple[Index, ...]
    elements: int
    conditions: Conditions = ()


@final
@dataclass(frozen=True, slots=True, eq=False)
class CommitCopies:
    """Make a group of the copies that each thread has begun since the last group."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class WaitCopies:
    """Wait until of the groups of each thread at most the `pending` last ones are under way."""

    pending: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class LoadMatrix:
    """Read 1, 2 or 4 matrices of 8 rows of 16 bytes from shared memory, one after the other.

    Lane 8 i + r names, by `index`, where row r of matrix i begins. Of each matrix a lane gets
    4 bytes into `registers`, from `place` on: those at 4 (lane % 4) of row lane // 4; where
    `transposed`, which needs elements of 2 bytes, those of column lane // 4 in rows 2 (lane % 4)
    and the next.
    """

    registers: Buffer
    place: tuple[Index, ...]
    source: Buffer
    index: tuple[Index, ...]
    count: int
    transposed: bool = False


@final
@dataclass(frozen=True, slots=True, eq=False)
class Multiply:
    """`sums += left * right`, fragments of `Mma` in registers from these places on."""

    kind: Mma
    sums: Buffer
    sums_place: tuple[Index, ...]
    left: Buffer
    left_place: tuple[Index, ...]
    right: Buffer
    right_place: tuple[Index, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """`target[place]` of each lane becomes `source[place]` of the lane whose number differs by xor.

    Elements have 4 bytes; `mask` is from 1 to 31.
    """

    target: Buffer
    place: tuple[Index, ...]
    source: Buffer
    source_place: tuple[Index, ...]
    mask: int


Leaf: TypeAlias = (
    Store | Barrier | CopyAsync | CommitCopies | WaitCopies | LoadMatrix | Multiply | Exchange
)
"""Statements without a body."""

Statement: TypeAlias = Leaf | Serial | When


@final
@dataclass(frozen=True, slots=True, eq=False)
class SimtKernel:
    """A kernel of `block.extent` blocks of `thread.extent` threads.

    `operands` are its pointers to global memory, `shared` the block's own memory, `registers` each
    thread's. Blocks run in any order and never wait for each other.
    """

    operands: tuple[Buffer, ...]
    block: Axis
    thread: Axis
    body: tuple[Statement, ...]
    shared: tuple[Buffer, ...] = ()
    registers: tuple[Buffer, ...] = ()

    @property
    def shared_bytes(self) -> int:
        """Size of the block's own memory."""
        return sum(buffer.size_bytes for buffer in self.shared)
