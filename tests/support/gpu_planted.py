"""Kernels with a fault planted in them, of the kinds that a GPU does not tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from codesign.compiler.backends.gpu.device import DEFAULT, DEVICES, DeviceModel
from codesign.compiler.backends.gpu.execute import KernelFaultError, execute
from codesign.compiler.backends.gpu.schedule import schedule as schedule_
from codesign.dtypes import Array, DType
from codesign.ir.simt.kernel import (
    Barrier,
    CommitCopies,
    CopyAsync,
    Exchange,
    LoadMatrix,
    Multiply,
    Serial,
    SimtKernel,
    Statement,
    Store,
    WaitCopies,
    When,
)
from codesign.ir.tensor.compute import (
    Fn,
    Guarded,
    Literal,
    Load,
    Reduce,
    Reduction,
    apply,
    convert,
)
from codesign.ir.tensor.index import Axis, Index, at, constant
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer

_RACE: Final = "race"
_OUTSIDE: Final = "access out of bounds"
_PARTED: Final = "divergent barrier"


_WRONG: Final = "wrong answer"

Check = Callable[[list[Array]], bool]
"""Whether the operands after a run are right."""


@final
@dataclass(frozen=True)
class Planted:
    """A faulty kernel, the kind of its fault, and what a right kernel's operands satisfy."""

    kernel: SimtKernel
    kind: str
    is_right: Check = lambda _: True

    def operands(self) -> list[Array]:
        """Return arrays for the operands."""
        rng = np.random.default_rng(0)
        return [
            rng.integers(-2, 3, buffer.elements).astype(buffer.dtype.numpy)
            for buffer in self.kernel.operands
        ]

    def found(self) -> tuple[str, str]:
        """Run the kernel; return the kind of fault that is found, and what is said of it."""
        operands = self.operands()
        try:
            execute(self.kernel, operands)
        except KernelFaultError as error:
            return error.fault.kind, str(error)
        if not self.is_right(operands):
            return _WRONG, "the result is not NumPy's"
        return "nothing", "nothing was found"


def schedule(stage: Stage, operands: tuple[Buffer, ...], device: DeviceModel) -> SimtKernel:
    """Return the one kernel of a stage."""
    found = schedule_(stage, operands, device)
    assert isinstance(found, SimtKernel), "small stages have one kernel"
    return found


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
    stage = Stage(target, (at(m), at(n)), (m, n), total)
    return schedule(stage, (a, b, target), DEVICES["sm_70"])


def matrix() -> SimtKernel:
    """A product of 40 x 160 with 56 x 160 matrices of float16 on tensor cores, in five slices."""
    half, single = DType.FLOAT16, DType.FLOAT32
    a, b = Buffer("a", (40, 160), half), Buffer("b", (56, 160), half)
    target = Buffer("target", (40, 56), single)
    m, n, k = Axis("m", 40), Axis("n", 56), Axis("k", 160)
    factors = (Load(a, (at(m), at(k))), Load(b, (at(n), at(k))))
    terms = apply(Fn.MULTIPLY, *(convert(each, single) for each in factors))
    total = Reduce(Reduction.SUM, (k,), terms, Literal(0, single))
    return schedule(Stage(target, (at(m), at(n)), (m, n), total), (a, b, target), DEFAULT)


def is_product(operands: list[Array]) -> bool:
    """Whether the third matrix is the product of the first two of `matrix`."""
    a, b, target = operands
    wide = a.reshape(40, 160).astype(np.float64) @ b.reshape(56, 160).astype(np.float64).T
    return bool(np.array_equal(target.reshape(40, 56), wide))


def is_sum(operands: list[Array]) -> bool:
    """Whether the second operand is the sums of `reduction`."""
    x, target = operands
    return bool(np.array_equal(target, x.reshape(3, 1000).sum(axis=1)))


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


def _changed_each(kind: type[Statement], change: Callable[..., Statement]) -> Change:
    """Change every statement of one kind."""
    return lambda each: change(each) if isinstance(each, kind) else each


def _first_lanes(kind: type[Statement], thread: Axis) -> Change:
    """Let half of each warp reach the statements of a kind."""
    lane = at(thread) % 32
    seen: set[Statement] = set()

    def change(each: Statement) -> Statement:
        if not isinstance(each, kind) or each in seen:
            return each
        seen.add(each)
        return When(((lane, 0, 16),), (each,))

    return change


def _askew(load: LoadMatrix) -> LoadMatrix:
    stage, row, column = load.index
    return replace(load, index=(stage, row, column + 1))


def _turned(load: LoadMatrix) -> LoadMatrix:
    """Take the rows of the left factor's tile of 16 from the last to the first."""
    stage, row, column = load.index
    if load.source.name != "left":
        return load
    return replace(load, index=(stage, row - row % 16 * 2 + 15, column))


def _of_tensor_cores() -> Mapping[str, Planted]:
    """Return faults of copies ahead of time, of matrices, and of their multiplication."""
    good = matrix()
    under_way, wrong = "copy not waited for", _WRONG

    def fault(change: Change, kind: str) -> Planted:
        return Planted(changed(good, change), kind, is_product)

    return {
        "matrix: nobody waits for copies": fault(
            lambda each: None if isinstance(each, WaitCopies) else each, under_way
        ),
        "matrix: waits for one group of copies too few": fault(
            _changed_each(WaitCopies, lambda wait: WaitCopies(wait.pending + 1)), under_way
        ),
        "matrix: copies are never made a group": fault(
            lambda each: None if isinstance(each, CommitCopies) else each, under_way
        ),
        "matrix: no barrier after waiting": fault(_without_barrier(0), _RACE),
        "matrix: copies beyond the matrix": fault(
            _changed_each(CopyAsync, lambda copy: replace(copy, conditions=())), _OUTSIDE
        ),
        "matrix: rows begin between 16 bytes": fault(
            _changed_each(LoadMatrix, _askew), "access askew"
        ),
        "matrix: half of a warp reads matrices": fault(
            _first_lanes(LoadMatrix, good.thread), "divergent warp"
        ),
        "matrix: all columns are multiplied by the first's fragment": fault(
            _changed_each(Multiply, lambda each: replace(each, right_place=(Index(), Index()))),
            wrong,
        ),
        "matrix: rows of matrices in another order": fault(
            _changed_each(LoadMatrix, _turned), wrong
        ),
        "matrix: matrices are turned": fault(
            _changed_each(LoadMatrix, lambda load: replace(load, transposed=True)), wrong
        ),
    }


def _of_exchanges() -> Mapping[str, Planted]:
    sums = reduction()
    return {
        "sum: lanes exchange with the same lane twice": Planted(
            changed(sums, _changed_each(Exchange, lambda each: replace(each, mask=1))),
            _WRONG,
            is_sum,
        ),
        "sum: half of a warp exchanges": Planted(
            changed(sums, _first_lanes(Exchange, sums.thread)),
            "divergent warp",
        ),
    }


def planted() -> Mapping[str, Planted]:
    """Return faulty kernels by what is wrong with them."""
    simple, sums, tiles = elementwise(), reduction(), product()
    return {
        **_of_tensor_cores(),
        **_of_exchanges(),
        "product: no barrier between fetching and multiplying": Planted(
            changed(tiles, _without_barrier(0)), _RACE
        ),
        "product: no barrier between multiplying and the next slice": Planted(
            changed(tiles, _without_barrier(1)), _RACE
        ),
        "sum: no barrier between the warps": Planted(changed(sums, _without_barrier(0)), _RACE),
        "sum: all lanes write their warp's sum": Planted(changed(sums, _unconditional), _RACE),
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
            changed(sums, _partly_reached(sums.thread, 0)), _PARTED
        ),
    }
