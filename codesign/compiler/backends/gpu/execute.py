"""Runs kernels of threads on the CPU, all threads in step, and finds what a GPU would not tell.

Found are races in shared and global memory, accesses out of bounds, and barriers that part of a
block does not reach. The first fault of a kernel ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, assert_never, final

import numpy as np

from codesign.compiler.backends.gpu.functions import FUNCTIONS, converted
from codesign.compiler.backends.gpu.memory_check import AccessLog, Fault
from codesign.compiler.backends.gpu.reduction import JOINS
from codesign.diagnostics import InternalError
from codesign.dtypes import Array, DType
from codesign.ir.simt.kernel import (
    Barrier,
    Conditions,
    Serial,
    SimtKernel,
    Statement,
    Store,
    When,
)
from codesign.ir.tensor.compute import (
    Accumulator,
    Apply,
    Convert,
    Expr,
    Guarded,
    Literal,
    Load,
    Position,
    Reduce,
)
from codesign.ir.tensor.index import Atom, Axis, Clamp, Element, FloorDiv, Index, Modulo
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.walk import indices, nodes

_LANES: Final = 1 << 17
"""Threads that are run at once; blocks beyond follow."""


@final
class KernelFaultError(Exception):
    """A kernel did what a GPU forbids or leaves undefined."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def execute(kernel: SimtKernel, operands: Sequence[Array]) -> None:
    """Run a kernel on flat arrays, one to an operand; those that it stores to change.

    Raises
    ------
    KernelFaultError
        A race, an access out of bounds, or a barrier that not all threads of a block reach.
    """
    written = {store.buffer for store in _stores(kernel.body)}
    logs = {
        buffer: AccessLog(buffer.name, buffer.elements, kernel.thread.extent, is_shared=False)
        for buffer in kernel.operands
        if buffer in written
    }
    count = max(1, _LANES // kernel.thread.extent)
    memory = dict(zip(kernel.operands, operands, strict=True))
    for first in range(0, kernel.block.extent, count):
        blocks = np.arange(first, min(first + count, kernel.block.extent))
        with np.errstate(all="ignore"):
            _Machine(kernel, blocks, memory, logs).run(kernel.body, None)


def _stores(body: tuple[Statement, ...]) -> list[Store]:
    found: list[Store] = []
    for statement in body:
        match statement:
            case Store():
                found.append(statement)
            case Serial(_, inner, _) | When(_, inner):
                found += _stores(inner)
            case Barrier():
                pass
            case _:
                assert_never(statement)
    return found


@final
class _Machine:
    """Some blocks of a kernel; a lane is a thread, `mask` says which take part (None: all)."""

    def __init__(
        self,
        kernel: SimtKernel,
        blocks: Array,
        memory: Mapping[Buffer, Array],
        logs: Mapping[Buffer, AccessLog],
    ) -> None:
        width = kernel.thread.extent
        self.kernel = kernel
        self.lanes = len(blocks) * width
        self.threads = (blocks[:, None] * width + np.arange(width)).reshape(-1)
        self.local = np.repeat(np.arange(len(blocks)), width)
        self.axes: dict[Axis, Array | int] = {
            kernel.block: np.repeat(blocks, width),
            kernel.thread: np.tile(np.arange(width), len(blocks)),
        }
        self.memory = dict(memory)
        self.logs = dict(logs)
        for buffer in kernel.shared:
            self.memory[buffer] = np.zeros(len(blocks) * buffer.elements, buffer.dtype.numpy)
            size = len(blocks) * buffer.elements
            self.logs[buffer] = AccessLog(buffer.name, size, width, is_shared=True)
        self.registers = {
            buffer: np.zeros((buffer.elements, self.lanes), buffer.dtype.numpy)
            for buffer in kernel.registers
        }
        self.shared = frozenset(kernel.shared)

    def run(self, body: tuple[Statement, ...], mask: Array | None) -> None:
        for statement in body:
            match statement:
                case Store():
                    self._store(statement, mask)
                case Serial(axis, inner, _):
                    for turn in range(axis.extent):
                        self.axes[axis] = turn
                        self.run(inner, mask)
                case When(conditions, inner):
                    self.run(inner, _both(mask, self._holds(conditions, mask)))
                case Barrier():
                    self._barrier(mask)
                case _:
                    assert_never(statement)

    def _barrier(self, mask: Array | None) -> None:
        if mask is not None:
            reached = mask.reshape(-1, self.kernel.thread.extent)
            partly = np.flatnonzero(reached.any(axis=1) & ~reached.all(axis=1))
            if len(partly):
                block = int(self.threads[partly[0] * self.kernel.thread.extent])
                waiting = int(reached[partly[0]].sum())
                detail = (
                    f"{waiting} of {self.kernel.thread.extent} threads of block "
                    f"{block // self.kernel.thread.extent} reach it"
                )
                raise KernelFaultError(Fault("divergent barrier", "the block", detail))
        for log in self.logs.values():
            log.barrier()

    def _store(self, store: Store, mask: Array | None) -> None:
        known: dict[Expr, Array] = {}
        source = store.value.dtype
        value = self._expr(store.value, mask, known)
        value = (
            converted(value, source, store.buffer.dtype)
            if (source is not store.buffer.dtype)
            else value
        )
        if store.buffer in self.registers:
            row = self.registers[store.buffer][self._register(store.buffer, store.index)]
            row[...] = value if mask is None else np.where(mask, value, row)
            return
        places = self._places(store.buffer, store.index, mask, known)
        lanes = slice(None) if mask is None else mask
        threads = self.threads[lanes]
        self._raise(self.logs[store.buffer].write(places[lanes], threads))
        value = np.broadcast_to(value, (self.lanes,))
        self.memory[store.buffer][places[lanes]] = value[lanes]

    def _register(self, buffer: Buffer, index: tuple[Index, ...]) -> int:
        place = self._index(buffer.address(index), None, {})
        if not isinstance(place, int):
            raise InternalError(f"the index into registers {buffer.name} is no constant")
        return place

    def _places(
        self,
        buffer: Buffer,
        index: tuple[Index, ...],
        mask: Array | None,
        known: dict[Expr, Array],
    ) -> Array:
        """Where lanes access a memory; 0 for lanes that take no part."""
        places = np.broadcast_to(self._index(buffer.address(index), mask, known), (self.lanes,))
        outside = (places < 0) | (places >= buffer.elements)
        if mask is not None:
            outside = outside & mask
        if outside.any():
            lane = int(np.flatnonzero(outside)[0])
            block, thread = divmod(int(self.threads[lane]), self.kernel.thread.extent)
            detail = (
                f"element {int(places[lane])} of {buffer.elements} by thread {thread} of block "
                f"{block}"
            )
            raise KernelFaultError(Fault("access out of bounds", buffer.name, detail))
        if mask is not None:
            places = np.where(mask, places, 0)
        return places + self.local * buffer.elements if buffer in self.shared else places

    def _raise(self, fault: Fault | None) -> None:
        if fault is not None:
            raise KernelFaultError(fault)

    def _holds(self, conditions: Conditions, mask: Array | None) -> Array:
        holds = np.ones(self.lanes, dtype=bool)
        for index, low, high in conditions:
            value = self._index(index, mask, {})
            holds &= (value >= low) & (value < high)
        return holds

    def _index(self, index: Index, mask: Array | None, known: dict[Expr, Array]) -> Array | int:
        total: Array | int = index.constant
        for atom, factor in index.terms:
            total = total + self._atom(atom, mask, known) * factor
        return total

    def _atom(self, atom: Atom, mask: Array | None, known: dict[Expr, Array]) -> Array | int:
        match atom:
            case Axis():
                return self.axes[atom]
            case FloorDiv(value, divisor):
                return self._index(value, mask, known) // divisor
            case Modulo(value, divisor):
                return self._index(value, mask, known) % divisor
            case Clamp(value, low, high):
                return np.clip(self._index(value, mask, known), low, high)
            case Element(expr):
                assert isinstance(
                    expr, Literal | Load | Apply | Convert | Position | Guarded | Reduce
                ), "an element of an index is a scalar expression"
                return self._expr(expr, mask, known).astype(np.int64)
            case _:
                assert_never(atom)

    def _expr(self, expr: Expr, mask: Array | None, known: dict[Expr, Array]) -> Array:
        value = known.get(expr)
        if value is None:
            value = self._fresh(expr, mask, known)
            known[expr] = value
        return value

    def _fresh(self, expr: Expr, mask: Array | None, known: dict[Expr, Array]) -> Array:
        match expr:
            case Literal(value, dtype):
                return np.asarray(value).astype(dtype.numpy)
            case Load(buffer, index):
                return self._load(buffer, index, mask, known)
            case Apply(function, args, dtype):
                values = [self._expr(each, mask, known) for each in args]
                return _typed(FUNCTIONS[function](*values), dtype)
            case Convert(value, dtype):
                return converted(self._expr(value, mask, known), value.dtype, dtype)
            case Position(index, _):
                return np.asarray(self._index(index, mask, known), dtype=np.int64)
            case Guarded(conditions, body, otherwise):
                holds = self._holds(conditions, mask)
                inside = self._expr(body, _both(mask, holds), dict(known))
                outside = self._expr(otherwise, _both(mask, ~holds), dict(known))
                return np.where(holds, inside, outside)
            case Reduce():
                return self._reduce(expr, mask, known)
            case Accumulator():
                raise InternalError("kernels of threads have no hidden accumulator")
            case _:
                assert_never(expr)

    def _load(
        self,
        buffer: Buffer,
        index: tuple[Index, ...],
        mask: Array | None,
        known: dict[Expr, Array],
    ) -> Array:
        if buffer in self.registers:
            row: Array = self.registers[buffer][self._register(buffer, index)]
            return row.copy()
        places = self._places(buffer, index, mask, known)
        if buffer in self.logs:
            lanes = slice(None) if mask is None else mask
            self._raise(self.logs[buffer].read(places[lanes], self.threads[lanes]))
        if not len(self.memory[buffer]):
            return np.zeros(self.lanes, buffer.dtype.numpy)
        found: Array = self.memory[buffer][places]
        return found

    def _reduce(self, expr: Reduce, mask: Array | None, known: dict[Expr, Array]) -> Array:
        total = np.asarray(expr.initial.value).astype(expr.dtype.numpy)
        constant = {node: value for node, value in known.items() if not _varies(node, expr.axes)}
        for turn in np.ndindex(*(axis.extent for axis in expr.axes)):
            self.axes.update(zip(expr.axes, turn, strict=True))
            term = self._expr(expr.body, mask, dict(constant))
            total = _typed(FUNCTIONS[JOINS[expr.kind]](total, term), expr.dtype)
        return total


def _varies(expr: Expr, axes: tuple[Axis, ...]) -> bool:
    return any(index.uses(axis) for node in nodes(expr) for index in indices(node) for axis in axes)


def _both(mask: Array | None, holds: Array) -> Array:
    return holds if mask is None else mask & holds


def _typed(value: Array, dtype: DType) -> Array:
    result = np.asarray(value)
    return result if result.dtype == dtype.numpy else result.astype(dtype.numpy)
