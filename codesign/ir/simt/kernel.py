"""A kernel as every thread sees it, in index notation over the block's and the thread's number.

statement := buffer[index, …] = expr | for axis in extent { statements } | barrier
           | when (low <= index < high and …) { statements }

Blocks and threads are numbered in one dimension; kernels of more dimensions divide these numbers.
So no limit of a grid but the greatest is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

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


Statement: TypeAlias = Store | Serial | When | Barrier


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
