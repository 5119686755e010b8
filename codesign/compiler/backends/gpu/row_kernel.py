"""A kernel for steps over rows: a warp or a block to each row, its elements in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final, final

from codesign.compiler.backends.gpu.device import DeviceModel
from codesign.compiler.backends.gpu.joins import JOINS, within_block, within_warp
from codesign.compiler.backends.gpu.rows import KINDS, is_over_rows
from codesign.compiler.lower.graph import Step, Value
from codesign.compiler.lower.rules import RULES
from codesign.ir.simt.kernel import Conditions, Serial, SimtKernel, Statement, Store, When
from codesign.ir.simt.matrix import WARP
from codesign.ir.tensor.compute import Expr, Guarded, Literal, Load, Reduction, apply
from codesign.ir.tensor.index import Axis, Index, at, unflatten
from codesign.ir.tensor.layout import Buffer

_BLOCK: Final = 256
_WARPS: Final = 4
"""Warps of a block where each has a row of its own."""

_PER_LANE: Final = 32
"""Elements that one thread keeps at most."""

_HERE: Final = (Index(),)


def over_rows(
    steps: tuple[Step, ...],
    views: tuple[Step, ...],
    buffers: Mapping[Value, Buffer],
    target: Buffer,
    device: DeviceModel,
) -> SimtKernel:
    """Return a kernel of the steps; `views` are steps by which operands are read."""
    return _Writer(steps, views, buffers, target, device).kernel()


@final
class _Writer:
    def __init__(
        self,
        steps: tuple[Step, ...],
        views: tuple[Step, ...],
        buffers: Mapping[Value, Buffer],
        target: Buffer,
        device: DeviceModel,
    ) -> None:
        self.steps = steps
        self.buffers = buffers
        self.target = target
        self.producers = {step.result: step for step in (*views, *steps)}
        self.reductions = [step for step in steps if is_over_rows(step)]
        self.shape = self.reductions[0].inputs[0].shape
        self.length = self.shape[-1]
        self.rows = prod(self.shape[:-1])
        self._shares(device)
        self.held = {
            value: Buffer(f"held{number}", (self.per_lane,), value.dtype)
            for number, value in enumerate(self._kept())
        }
        self.totals = {
            step.result: Buffer(f"total{number}", (1,), step.result.dtype)
            for number, step in enumerate(self.reductions)
        }
        self.shared: list[Buffer] = []
        self.spare: list[Buffer] = []
        self.written: set[Value] = set()

    def _shares(self, device: DeviceModel) -> None:
        """Decide which thread has which elements of which row."""
        few = self.rows <= device.multiprocessors and self.length >= 2 * _BLOCK
        self.is_block = few or self.length > WARP * _PER_LANE
        self.width = _BLOCK if self.is_block else WARP
        neighbours = 4
        while self.length % neighbours or self.length < neighbours * self.width:
            neighbours //= 2
            if neighbours <= 1:
                break
        neighbours = max(neighbours, 1)
        self.turns = -(-self.length // (self.width * neighbours))
        self.neighbours = neighbours
        self.per_lane = self.turns * neighbours
        rows = 1 if self.is_block else _WARPS
        self.block = Axis("block", -(-self.rows // rows))
        self.thread = Axis("thread", self.width * rows)
        self.row = at(self.block) * rows + at(self.thread) // self.width
        self.turn, self.neighbour = Axis("turn", self.turns), Axis("neighbour", neighbours)
        lane = at(self.thread) % self.width
        self.place = (at(self.turn) * self.width + lane) * neighbours + at(self.neighbour)
        self.register = at(self.turn) * neighbours + at(self.neighbour)
        position = self.place
        self.inside: Conditions = ()
        if position.bounds()[1] >= self.length:
            self.inside = ((position, 0, self.length),)

    def _kept(self) -> Iterator[Value]:
        """Yield full rows that are needed after a reduction which has looked at them already."""
        phases: dict[Value, set[int]] = {}
        phase = 0
        for step in self.steps:
            for value in step.inputs:
                if value.shape == self.shape and value.constant is None:
                    phases.setdefault(value, set()).add(phase)
            phase += is_over_rows(step)
        reduced = {step.inputs[0] for step in self.reductions}
        for value, used in phases.items():
            if len(used) > 1 and (value not in self.producers or value in reduced):
                yield value

    def kernel(self) -> SimtKernel:
        body: list[Statement] = []
        for step in self.reductions:
            body += self._reduction(step)
        body.append(self._result())
        statements = tuple(body)
        rows = () if self.row.bounds()[1] < self.rows else ((self.row, 0, self.rows),)
        if rows:
            statements = (When(rows, statements),)
        return SimtKernel(
            (*self.buffers.values(), self.target),
            self.block,
            self.thread,
            statements,
            shared=tuple(self.shared),
            registers=(*self.held.values(), *self.totals.values(), *self.spare),
        )

    def _reduction(self, step: Step) -> Iterator[Statement]:
        kind = KINDS[step.operator]
        total, source = self.totals[step.result], step.inputs[0]
        yield from self._keep(source)
        initial = _initial(kind, total)
        term = self._element(source)
        if self.inside:
            term = Guarded(self.inside, term, initial)
        yield Store(total, _HERE, initial)
        yield self._for_own(Store(total, _HERE, apply(JOINS[kind], Load(total, _HERE), term)))
        other = Buffer(f"other_{total.name}", (1,), total.dtype)
        self.spare.append(other)
        if self.is_block:
            partial = Buffer(f"partial_{total.name}", (self.width // WARP,), total.dtype)
            self.shared.append(partial)
            yield from within_block(kind, total, other, partial, self.thread)
        else:
            yield from within_warp(kind, total, other)

    def _keep(self, needed: Value) -> Iterator[Statement]:
        """Put rows into registers that come by now and are needed again."""
        for value in self._below(needed):
            if value in self.held and value not in self.written:
                element = self._element(value)
                if self.inside:
                    element = Guarded(self.inside, element, Literal(0, element.dtype))
                yield self._for_own(Store(self.held[value], (self.register,), element))
                self.written.add(value)

    def _below(self, value: Value) -> Iterator[Value]:
        """Yield what a value is computed from, and it after that."""
        step = self.producers.get(value)
        if step is not None and value not in self.totals and value not in self.written:
            for each in step.inputs:
                yield from self._below(each)
        yield value

    def _result(self) -> Statement:
        value = self.steps[-1].result
        *outer, _ = (*self._row_index(), Index())
        if value.shape == self.shape:
            store = Store(self.target, (*outer, self.place), self._element(value))
            return self._for_own(*_under(self.inside, store))
        first = ((at(self.thread) % self.width, 0, 1),)
        return When(first, (Store(self.target, (*outer, Index()), self._element(value)),))

    def _for_own(self, *statements: Statement) -> Statement:
        inner = Serial(self.neighbour, statements, unroll=True)
        return Serial(self.turn, (inner,), unroll=True)

    def _row_index(self) -> tuple[Index, ...]:
        return unflatten(self.row, self.shape[:-1])

    def _element(self, value: Value) -> Expr:
        """Return a value's element at this thread's place in its row."""
        last = self.place if value.shape == self.shape else Index()
        known: dict[tuple[Value, tuple[Index, ...]], Expr] = {}

        def element(each: Value, index: tuple[Index, ...]) -> Expr:
            key = (each, index)
            if key not in known:
                known[key] = fresh(each, index)
            return known[key]

        def fresh(each: Value, index: tuple[Index, ...]) -> Expr:
            if each in self.totals:
                return Load(self.totals[each], _HERE)
            if each in self.written:
                return Load(self.held[each], (self.register,))
            step = self.producers.get(each)
            if step is None:
                return Load(self.buffers[each], index)
            rule = RULES[step.operator]
            return rule(step, index, lambda number, at_: element(step.inputs[number], at_))

        return element(value, (*self._row_index(), last))


def _initial(kind: Reduction, total: Buffer) -> Literal:
    dtype = total.dtype
    match kind:
        case Reduction.SUM:
            return Literal(0, dtype)
        case Reduction.PRODUCT:
            return Literal(1, dtype)
        case Reduction.MAXIMUM:
            return Literal(float("-inf") if dtype.is_float else dtype.minimum, dtype)
        case Reduction.MINIMUM:
            return Literal(float("inf") if dtype.is_float else dtype.maximum, dtype)


def _under(conditions: Conditions, statement: Statement) -> tuple[Statement, ...]:
    return (When(conditions, (statement,)),) if conditions else (statement,)
