"""A graph of kernels on this machine's memory, which finds nodes that no edge keeps apart."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import final

import numpy as np

from codesign.compiler.backends.gpu.execute import execute
from codesign.dtypes import Array
from codesign.ir.simt.kernel import Serial, SimtKernel, Statement, Store, When
from codesign.ir.tensor.layout import Buffer


@final
@dataclass(frozen=True, eq=False)
class _Operand:
    """Bytes that a kernel may read, or of which it writes some."""

    kernel: SimtKernel
    buffer: Buffer
    begin: int
    is_written: bool

    def clashes(self, other: _Operand) -> bool:
        """Whether it matters which of the two is touched first."""
        begin = max(self.begin, other.begin)
        end = min(self.begin + self.buffer.size_bytes, other.begin + other.buffer.size_bytes)
        if begin >= end or not (self.is_written or other.is_written):
            return False
        if not (self.is_written and other.is_written):
            return True
        both = self.written()[begin - self.begin : end - self.begin]
        return bool((both & other.written()[begin - other.begin : end - other.begin]).any())

    def written(self) -> Array:
        """Return which bytes are the same afterwards, whatever they were before."""
        place = self.kernel.operands.index(self.buffer)
        found = []
        for fill in (0x00, 0xFF):
            arrays = [np.zeros(each.elements, each.dtype.numpy) for each in self.kernel.operands]
            arrays[place].view(np.uint8)[:] = fill
            execute(self.kernel, arrays)
            found.append(arrays[place].view(np.uint8))
        return np.asarray(found[0] == found[1])


@final
@dataclass(frozen=True, eq=False)
class Node:
    """A kernel and the addresses of its operands."""

    kernel: SimtKernel
    pointers: tuple[int, ...]

    def run(self) -> None:
        """Run the kernel on the memory of its operands."""
        arrays = []
        for buffer, pointer in zip(self.kernel.operands, self.pointers, strict=True):
            room = (ctypes.c_uint8 * buffer.size_bytes).from_address(pointer)
            arrays.append(np.frombuffer(room, np.uint8).view(buffer.dtype.numpy))
        execute(self.kernel, arrays)

    def operands(self) -> list[_Operand]:
        """Return the operands, each with whether it is written."""
        stored = set(_stored(self.kernel.body))
        return [
            _Operand(self.kernel, buffer, pointer, buffer in stored)
            for buffer, pointer in zip(self.kernel.operands, self.pointers, strict=True)
        ]


@final
@dataclass(eq=False)
class FakeGraph:
    """Nodes, and for each the numbers of those that it follows."""

    nodes: list[Node] = field(default_factory=list)
    followed: list[frozenset[int]] = field(default_factory=list)

    def add(self, node: Node, followed: list[int]) -> int:
        """Add a node and return its number."""
        assert all(0 <= number < len(self.nodes) for number in followed)
        self.nodes.append(node)
        self.followed.append(frozenset(followed))
        return len(self.nodes) - 1

    def check(self) -> None:
        """Refuse two nodes that touch the same bytes, one to write, in an order left open."""
        operands = [node.operands() for node in self.nodes]
        done: list[set[int]] = []
        for number, followed in enumerate(self.followed):
            done.append(set(followed).union(*(done[each] for each in followed)))
            for other in set(range(number)) - done[number]:
                pairs = product(operands[number], operands[other])
                assert not any(first.clashes(second) for first, second in pairs), (
                    f"nodes {other} and {number} touch the same bytes and nothing orders them"
                )

    def in_some_order(self, rng: np.random.Generator) -> Iterator[Node]:
        """Yield every node after those that it follows, in an order drawn at random."""
        waiting = set(range(len(self.nodes)))
        while waiting:
            ready = [each for each in sorted(waiting) if not self.followed[each] & waiting]
            chosen = ready[int(rng.integers(len(ready)))]
            waiting.remove(chosen)
            yield self.nodes[chosen]


def _stored(body: tuple[Statement, ...]) -> Iterator[Buffer]:
    for statement in body:
        match statement:
            case Store(buffer, _, _):
                yield buffer
            case Serial(_, inner, _) | When(_, inner):
                yield from _stored(inner)
            case _:
                pass
