"""Runs kernels of threads on the CPU, all threads in step, and finds what a GPU would not tell.

Found are races in shared and global memory, accesses out of bounds, and barriers that part of a
block does not reach. The first fault of a kernel ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never, final

import numpy as np

from codesign.compiler.backends.gpu.functions import converted
from codesign.compiler.backends.gpu.lanes import KernelFaultError, Lanes, both, report
from codesign.compiler.backends.gpu.memory_check import AccessLog, Fault
from codesign.compiler.backends.gpu.warp import (
    exchanged,
    matrix_elements,
    multiplied,
    row_elements,
)
from codesign.dtypes import Array
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
from codesign.ir.simt.matrix import WARP
from codesign.ir.tensor.compute import Expr
from codesign.ir.tensor.index import Index
from codesign.ir.tensor.layout import Buffer

__all__ = ["KernelFaultError", "execute"]

_LANES: Final = 1 << 17
"""Threads that are run at once; blocks beyond follow."""

_SHARED: Final = 1 << 22
"""Elements of shared memory that are there at once."""


def execute(kernel: SimtKernel, operands: Sequence[Array]) -> None:
    """Run a kernel on flat arrays, one to an operand; those that it stores to change.

    Raises
    ------
    KernelFaultError
        A race, an access out of bounds or askew, a copy that was not waited for, a barrier that not
        all threads of a block reach, or a statement of warps that not all lanes reach.
    """
    written = {store.buffer for store in _stores(kernel.body)}
    logs = {
        buffer: AccessLog(buffer.name, buffer.elements, kernel.thread.extent, is_shared=False)
        for buffer in kernel.operands
        if buffer in written
    }
    shared = sum(buffer.elements for buffer in kernel.shared)
    count = max(1, min(_LANES // kernel.thread.extent, _SHARED // max(shared, 1)))
    memory = dict(zip(kernel.operands, operands, strict=True))
    for first in range(0, kernel.block.extent, count):
        blocks = np.arange(first, min(first + count, kernel.block.extent))
        with np.errstate(all="ignore"):
            _Machine(Lanes(kernel, blocks, memory, logs)).run(kernel.body, None)


def _stores(body: tuple[Statement, ...]) -> list[Store]:
    found: list[Store] = []
    for statement in body:
        match statement:
            case Store():
                found.append(statement)
            case Serial(_, inner, _) | When(_, inner):
                found += _stores(inner)
            case _:
                pass
    return found


@final
class _Copies:
    """Copies of one statement: where they go, what arrives, and whose they are."""

    def __init__(self, target: Buffer, places: Array, values: Array, threads: Array) -> None:
        self.target = target
        self.places = places
        self.values = values
        self.threads = threads


@final
class _Machine:
    """Runs statements on lanes."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.width = lanes.kernel.thread.extent
        self.begun: list[_Copies] = []
        self.groups: list[list[_Copies]] = []

    def run(self, body: tuple[Statement, ...], mask: Array | None) -> None:
        for statement in body:
            match statement:
                case Serial(axis, inner, _):
                    for turn in range(axis.extent):
                        self.lanes.axes[axis] = turn
                        self.run(inner, mask)
                case When(conditions, inner):
                    self.run(inner, both(mask, self.lanes.holds(conditions, mask)))
                case _:
                    self._leaf(statement, mask)

    def _leaf(self, statement: Leaf, mask: Array | None) -> None:
        match statement:
            case Store():
                self._store(statement, mask)
            case Barrier():
                self._together(mask, self.width, "divergent barrier")
                for log in self.lanes.logs.values():
                    log.barrier()
            case CopyAsync():
                self._copy(statement, mask)
            case CommitCopies():
                self._together(mask, self.lanes.count, "divergent commit")
                self.groups.append(self.begun)
                self.begun = []
            case WaitCopies(pending):
                self._together(mask, self.lanes.count, "divergent wait")
                self._wait(pending)
            case LoadMatrix():
                self._load_matrix(statement, mask)
            case Multiply():
                self._multiply(statement, mask)
            case Exchange(target, place, source, source_place, distance):
                self._together(mask, WARP, "divergent warp")
                row = self.lanes.register(source, source_place)
                values = exchanged(self.lanes.registers[source][row], distance)
                self._set(target, place, values[None], mask)
            case _:
                assert_never(statement)

    def _together(self, mask: Array | None, width: int, fault: str) -> None:
        """Refuse a statement which of some `width` neighbours only a part reaches."""
        assert self.width % WARP == 0 or width != WARP, "blocks are made of whole warps"
        if mask is None:
            return
        reached = mask.reshape(-1, width)
        partly = np.flatnonzero(reached.any(axis=1) & ~reached.all(axis=1))
        if len(partly):
            block = int(self.lanes.threads[partly[0] * width]) // self.width
            waiting = int(reached[partly[0]].sum())
            detail = f"{waiting} of {width} threads of block {block} reach it"
            raise KernelFaultError(Fault(fault, "the block", detail))

    def _store(self, store: Store, mask: Array | None) -> None:
        lanes = self.lanes
        known: dict[Expr, Array] = {}
        source = store.value.dtype
        value = lanes.expr(store.value, mask, known)
        if source is not store.buffer.dtype:
            value = converted(value, source, store.buffer.dtype)
        if store.buffer in lanes.registers:
            row = lanes.registers[store.buffer][lanes.register(store.buffer, store.index)]
            row[...] = value if mask is None else np.where(mask, value, row)
            return
        places = lanes.places(store.buffer, store.index, mask, known)
        chosen = slice(None) if mask is None else mask
        report(lanes.logs[store.buffer].write(places[chosen], lanes.threads[chosen]))
        value = np.broadcast_to(value, (lanes.count,))
        lanes.memory[store.buffer][places[chosen]] = value[chosen]

    def _set(
        self, buffer: Buffer, place: tuple[Index, ...], values: Array, mask: Array | None
    ) -> None:
        """Set registers from a place on to (elements, lanes)."""
        first = self.lanes.register(buffer, place)
        rows = self.lanes.registers[buffer][first : first + len(values)]
        assert len(rows) == len(values), f"the registers {buffer.name} suffice"
        rows[...] = values if mask is None else np.where(mask, values, rows)

    def _get(self, buffer: Buffer, place: tuple[Index, ...], elements: int) -> Array:
        first = self.lanes.register(buffer, place)
        rows = self.lanes.registers[buffer][first : first + elements]
        assert len(rows) == elements, f"the registers {buffer.name} suffice"
        return np.asarray(rows)

    def _copy(self, copy: CopyAsync, mask: Array | None) -> None:
        lanes = self.lanes
        size = copy.elements * copy.target.dtype.size_bytes
        assert size in (4, 8, 16), "4, 8 or 16 bytes are copied at once"
        assert copy.target in lanes.shared, "copies go to shared memory"
        inside = mask
        if copy.conditions:
            inside = both(mask, lanes.holds(copy.conditions, mask))
        targets = lanes.run(copy.target, copy.index, copy.elements, mask, size)
        sources = lanes.run(copy.source, copy.source_index, copy.elements, inside, size)
        memory = lanes.memory[copy.source]
        chosen = np.ones(lanes.count, bool) if mask is None else mask
        for places, froms in zip(targets, sources, strict=True):
            values = memory[froms] if len(memory) else np.zeros(lanes.count, memory.dtype)
            if inside is not None:
                values = np.where(inside, values, 0)
            where, threads = places[chosen], lanes.threads[chosen]
            report(lanes.logs[copy.target].begin(where, threads))
            self.begun.append(_Copies(copy.target, where, values[chosen], threads))

    def _wait(self, pending: int) -> None:
        while len(self.groups) > pending:
            for copies in self.groups.pop(0):
                self.lanes.memory[copies.target][copies.places] = copies.values
                self.lanes.logs[copies.target].end(copies.places, copies.threads)

    def _load_matrix(self, load: LoadMatrix, mask: Array | None) -> None:
        lanes = self.lanes
        self._together(mask, WARP, "divergent warp")
        size = load.source.dtype.size_bytes
        assert load.source in lanes.shared, "matrices are read from shared memory"
        names = np.tile(np.arange(WARP) < 8 * load.count, lanes.count // WARP)
        naming = names if mask is None else names & mask
        first, *_ = lanes.run(load.source, load.index, row_elements(size), naming, 16)
        rows = first.reshape(-1, WARP)[:, : 8 * load.count].reshape(-1, load.count, 8)
        found = matrix_elements(rows, size, transposed=load.transposed)
        chosen = slice(None) if mask is None else mask
        for places in found:
            report(lanes.logs[load.source].read(places[chosen], lanes.threads[chosen]))
        self._set(load.registers, load.place, lanes.memory[load.source][found], mask)

    def _multiply(self, each: Multiply, mask: Array | None) -> None:
        self._together(mask, WARP, "divergent warp")
        kind = each.kind
        sums = multiplied(
            kind,
            self._get(each.sums, each.sums_place, kind.sums_elements),
            self._get(each.left, each.left_place, kind.left_elements),
            self._get(each.right, each.right_place, kind.right_elements),
        )
        self._set(each.sums, each.sums_place, sums, mask)
