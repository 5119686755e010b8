"""Many threads in step, and what expressions are in each of them; accesses are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never, final

import numpy as np

from codesign.compiler.backends.gpu.functions import FUNCTIONS, converted
from codesign.compiler.backends.gpu.joins import JOINS
from codesign.compiler.backends.gpu.memory_check import AccessLog, Fault
from codesign.diagnostics import InternalError
from codesign.dtypes import Array, DType
from codesign.ir.simt.kernel import Conditions, SimtKernel
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


@final
class KernelFaultError(Exception):
    """A kernel did what a GPU forbids or leaves undefined."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def report(fault: Fault | None) -> None:
    """Raise KernelFaultError where there is a fault."""
    if fault is not None:
        raise KernelFaultError(fault)


@final
class Lanes:
    """Some blocks of a kernel; a lane is a thread, a mask says which take part (None: all).

    `local` is the number of a lane's block among these. Registers are (elements, lanes).
    """

    def __init__(
        self,
        kernel: SimtKernel,
        blocks: Array,
        memory: Mapping[Buffer, Array],
        logs: Mapping[Buffer, AccessLog],
    ) -> None:
        width = kernel.thread.extent
        self.kernel = kernel
        self.count = len(blocks) * width
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
            buffer: np.zeros((buffer.elements, self.count), buffer.dtype.numpy)
            for buffer in kernel.registers
        }
        self.shared = frozenset(kernel.shared)

    def register(self, buffer: Buffer, index: tuple[Index, ...]) -> int:
        place = self.index(buffer.address(index), None, {})
        if not isinstance(place, int):
            raise InternalError(f"the index into registers {buffer.name} is no constant")
        return place

    def places(
        self,
        buffer: Buffer,
        index: tuple[Index, ...],
        mask: Array | None,
        known: dict[Expr, Array],
    ) -> Array:
        """Where lanes access a memory; 0 for lanes that take no part."""
        return self._checked(buffer, self.index(buffer.address(index), mask, known), mask)

    def _checked(self, buffer: Buffer, address: Array | int, mask: Array | None) -> Array:
        places = np.broadcast_to(address, (self.count,))
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

    def run(
        self, buffer: Buffer, index: tuple[Index, ...], elements: int, mask: Array | None, size: int
    ) -> list[Array]:
        """Where neighbours in memory lie from an index on, which is a multiple of `size` bytes."""
        first = np.broadcast_to(self.index(buffer.address(index), mask, {}), (self.count,))
        askew = first * buffer.dtype.size_bytes % size != 0
        askew = askew if mask is None else askew & mask
        if askew.any():
            lane = int(np.flatnonzero(askew)[0])
            detail = f"element {int(first[lane])} is no multiple of {size} bytes"
            raise KernelFaultError(Fault("access askew", buffer.name, detail))
        return [self._checked(buffer, first + each, mask) for each in range(elements)]

    def holds(self, conditions: Conditions, mask: Array | None) -> Array:
        holds = np.ones(self.count, dtype=bool)
        for index, low, high in conditions:
            value = self.index(index, mask, {})
            holds &= (value >= low) & (value < high)
        return holds

    def index(self, index: Index, mask: Array | None, known: dict[Expr, Array]) -> Array | int:
        total: Array | int = index.constant
        for atom, factor in index.terms:
            total = total + self._atom(atom, mask, known) * factor
        return total

    def _atom(self, atom: Atom, mask: Array | None, known: dict[Expr, Array]) -> Array | int:
        match atom:
            case Axis():
                return self.axes[atom]
            case FloorDiv(value, divisor):
                return self.index(value, mask, known) // divisor
            case Modulo(value, divisor):
                return self.index(value, mask, known) % divisor
            case Clamp(value, low, high):
                return np.clip(self.index(value, mask, known), low, high)
            case Element(expr):
                assert isinstance(
                    expr, Literal | Load | Apply | Convert | Position | Guarded | Reduce
                ), "an element of an index is a scalar expression"
                return self.expr(expr, mask, known).astype(np.int64)
            case _:
                assert_never(atom)

    def expr(self, expr: Expr, mask: Array | None, known: dict[Expr, Array]) -> Array:
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
                values = [self.expr(each, mask, known) for each in args]
                return _typed(FUNCTIONS[function](*values), dtype)
            case Convert(value, dtype):
                return converted(self.expr(value, mask, known), value.dtype, dtype)
            case Position(index, _):
                return np.asarray(self.index(index, mask, known), dtype=np.int64)
            case Guarded(conditions, body, otherwise):
                holds = self.holds(conditions, mask)
                inside = self.expr(body, both(mask, holds), dict(known))
                outside = self.expr(otherwise, both(mask, ~holds), dict(known))
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
            row: Array = self.registers[buffer][self.register(buffer, index)]
            return row.copy()
        places = self.places(buffer, index, mask, known)
        if buffer in self.logs:
            lanes = slice(None) if mask is None else mask
            report(self.logs[buffer].read(places[lanes], self.threads[lanes]))
        if not len(self.memory[buffer]):
            return np.zeros(self.count, buffer.dtype.numpy)
        found: Array = self.memory[buffer][places]
        return found

    def _reduce(self, expr: Reduce, mask: Array | None, known: dict[Expr, Array]) -> Array:
        total = np.asarray(expr.initial.value).astype(expr.dtype.numpy)
        constant = {node: value for node, value in known.items() if not _varies(node, expr.axes)}
        for turn in np.ndindex(*(axis.extent for axis in expr.axes)):
            self.axes.update(zip(expr.axes, turn, strict=True))
            term = self.expr(expr.body, mask, dict(constant))
            total = _typed(FUNCTIONS[JOINS[expr.kind]](total, term), expr.dtype)
        return total


def _varies(expr: Expr, axes: tuple[Axis, ...]) -> bool:
    return any(index.uses(axis) for node in nodes(expr) for index in indices(node) for axis in axes)


def both(mask: Array | None, holds: Array) -> Array:
    return holds if mask is None else mask & holds


def _typed(value: Array, dtype: DType) -> Array:
    result = np.asarray(value)
    return result if result.dtype == dtype.numpy else result.astype(dtype.numpy)
