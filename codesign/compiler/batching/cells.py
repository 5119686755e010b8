"""Cells: operators of a program that always run together, as one function on many samples.

Calls that one activation makes at one stage are an instance of a cell; instances with the same
calls in the same order, fed alike, are samples of one cell. What they read is a parameter: tensors
that other instances or the user give, and known tensors that another activation handed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from codesign.compiler.batching.trace import Activation, Field, Made, Operand, Symbol
from codesign.compiler.batching.vectorize import vectorized, with_samples
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, Project, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, Length, TensorType, TupleType, Type

Read: TypeAlias = Symbol | Array
"""What an instance reads: a symbol, or a tensor that is known."""

_Own: TypeAlias = tuple[int, int]
"""Which call of the instance gives an operand, and which field of it."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A function from samples to samples.

    `params` are the types of one sample of each; one with an unknown length takes no others beside
    it, and the cell is `alone`: it runs for one sample after another, without a first axis.
    `outputs` are which call and field of it each result is.
    """

    name: str
    calls: tuple[Made, ...]
    operands: tuple[tuple[Any, ...], ...]
    params: tuple[TensorType, ...]
    outputs: tuple[_Own, ...]

    @property
    def alone(self) -> bool:
        """Whether samples have lengths of their own."""
        return any(UNKNOWN in param.shape for param in self.params)

    def module(self, samples: int | None) -> Module:
        """Return a module of which `main` takes `x0`, `x1`, … and gives a tuple of the results.

        The first axis of each is `samples` long, or of any one length where it is None.

        Raises
        ------
        CodesignError
            An operator has no form for many samples.
        """
        if samples is None:
            axis = TensorType((UNKNOWN,), DType.FLOAT32, (Length("samples"),))
        else:
            axis = TensorType((samples,), DType.FLOAT32)
        types = [param if self.alone else with_samples(param, axis) for param in self.params]
        params = tuple(Var(f"x{index}", type_) for index, type_ in enumerate(types))
        made: list[Expr] = []
        for each, operands in zip(self.calls, self.operands, strict=True):
            made.append(self._call(each, operands, params, made))
        results = tuple(_field_of(self.calls[call], made[call], i) for call, i in self.outputs)
        return Module({"main": Function(params, Tuple(results))})

    def _call(
        self, made: Made, operands: tuple[Any, ...], params: tuple[Var, ...], known: list[Expr]
    ) -> Call:
        parts = [self._operand(each, params, known) for each in operands]
        args = tuple(expr for expr, _, _ in parts)
        if self.alone:
            return Call(made.call.callee, args, made.call.attrs, made.call.span)
        types, many = [type_ for _, type_, _ in parts], [each for _, _, each in parts]
        return vectorized(made.call, args, types, many)

    def _operand(
        self, operand: Any, params: tuple[Var, ...], known: list[Expr]
    ) -> tuple[Expr, Type, bool]:
        """Return an operand, its type without samples, and whether it has them."""
        match operand:
            case _Slot(index=index):
                return params[index], self.params[index], True
            case _Inner(call=call, index=index, type=type_):
                return _field_of(self.calls[call], known[call], index), type_, True
            case Constant(value=value):
                return operand, TensorType(value.shape, DType.of(value.dtype)), False
            case tuple():
                parts = [self._operand(each, params, known) for each in operand]
                fields = tuple(expr for expr, _, _ in parts)
                types = TupleType(tuple(type_ for _, type_, _ in parts))
                return Tuple(fields), types, all(many for _, _, many in parts)
            case _:
                raise AssertionError("an operand is a tensor or a tuple of them")


@final
@dataclass(frozen=True, slots=True)
class _Slot:
    index: int


@final
@dataclass(frozen=True, slots=True)
class _Inner:
    call: int
    index: int
    type: TensorType


@final
@dataclass(slots=True, eq=False)
class Instance:
    """One sample of a cell: what it reads; its level is the longest way of instances to it.

    It is sample `row` of a plan's group `group`.
    """

    cell: int
    reads: tuple[Read, ...]
    level: int = -1
    group: int = -1
    row: int = -1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """All cells of a trace, their instances, and which instance gives what a call gives."""

    cells: tuple[Cell, ...]
    instances: tuple[Instance, ...]
    homes: dict[Made, tuple[Instance, int]]


@final
@dataclass(slots=True, eq=False)
class _Segment:
    """Calls of one activation at one stage."""

    calls: list[Made] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    places: dict[Made, int] = field(default_factory=dict)
    slots: dict[Symbol, int] = field(default_factory=dict)
    operands: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, made: Made) -> None:
        self.places[made] = len(self.calls)
        self.calls.append(made)
        self.operands.append(tuple(map(self._operand, made.args)))

    def _operand(self, value: Operand) -> Any:
        match value:
            case Symbol(source=Field(made=made, index=index), type=type_) if made in self.places:
                return _Inner(self.places[made], index, type_)
            case Symbol():
                if value not in self.slots:
                    self.slots[value] = len(self.reads)
                    self.reads.append(value)
                return _Slot(self.slots[value])
            case tuple():
                return tuple(map(self._operand, value))
            case Constant():
                return value
            case _ if value.ndim == 0:
                return Constant(value)
            case _:
                self.reads.append(value)
                return _Slot(len(self.reads) - 1)

    def key(self) -> Hashable:
        calls = tuple(id(made.call) for made in self.calls)
        return calls, tuple(map(_operand_key, self.operands)), tuple(map(read_type, self.reads))


def cells_of(calls: Sequence[Made], results: Sequence[Symbol]) -> Cells:
    """Return the cells of a trace; `results` are the symbols that the user gets."""
    segments: dict[tuple[Activation, int], _Segment] = defaultdict(_Segment)
    owner: dict[Made, _Segment] = {}
    for made in calls:
        segment = segments[made.activation, made.stage]
        segment.add(made)
        owner[made] = segment
    used: dict[_Segment, set[_Own]] = defaultdict(set)
    for symbol in (*_outer_reads(segments.values()), *results):
        source = symbol.root.source
        if isinstance(source, Field):
            segment = owner[source.made]
            used[segment].add((segment.places[source.made], source.index))
    groups: dict[Hashable, list[_Segment]] = defaultdict(list)
    for segment in segments.values():
        groups[segment.key()].append(segment)
    cells, instances = [], []
    homes: dict[Made, tuple[Instance, int]] = {}
    for number, members in enumerate(groups.values()):
        first = members[0]
        outputs = tuple(sorted({each for member in members for each in used[member]}))
        cells.append(
            Cell(
                f"cell{number}",
                tuple(first.calls),
                tuple(first.operands),
                tuple(map(read_type, first.reads)),
                outputs,
            )
        )
        for member in members:
            instance = Instance(number, tuple(member.reads))
            instances.append(instance)
            homes.update((made, (instance, place)) for made, place in member.places.items())
    found = Cells(tuple(cells), tuple(instances), homes)
    _find_levels(found)
    return found


def _outer_reads(segments: Iterable[_Segment]) -> list[Symbol]:
    return [read for each in segments for read in each.reads if isinstance(read, Symbol)]


def read_type(read: Read) -> TensorType:
    """Return the type of what an instance reads."""
    if isinstance(read, Symbol):
        return read.type
    return TensorType(read.shape, DType.of(read.dtype))


def _operand_key(operand: Any) -> Hashable:
    match operand:
        case Constant(value=value):
            return (value.tobytes(), value.dtype) if value.ndim == 0 else id(operand)
        case tuple():
            return tuple(map(_operand_key, operand))
        case _:
            place: Hashable = operand
            return place


def _find_levels(cells: Cells) -> None:
    """Set every instance's level: one more than the greatest of those that it reads."""
    for root in cells.instances:
        stack = [root]
        while stack:
            instance = stack[-1]
            before = [
                cells.homes[source.made][0]
                for read in instance.reads
                if isinstance(read, Symbol) and isinstance(source := read.root.source, Field)
            ]
            open_ = [each for each in before if each.level < 0]
            if open_:
                stack.extend(open_)
                continue
            instance.level = 1 + max((each.level for each in before), default=-1)
            stack.pop()


def _field_of(made: Made, value: Expr, index: int) -> Expr:
    return Project(value, index) if made.is_split else value
