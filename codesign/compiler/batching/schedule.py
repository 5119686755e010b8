"""Recursive programs on many inputs at once: instances of one cell and level run as samples.

    plan = batch(module, [{"tree": …, "words": …}, …])
    results = plan.run(run_cell)

`run_cell(cell, samples)` gets a cell and an array for each of its parameters, samples along the
first axis, and gives one for each result; a cell that is `alone` gets the arrays of one sample.
The recursive program is the only source: what it computes for one input and what the plan computes
for it among others are sums of the same products (docs/numbers.md, "Sums").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from codesign.compiler.batching.cells import Cell, Cells, Instance, Read, cells_of
from codesign.compiler.batching.trace import Field, Given, Made, Piece, Row, Symbol, Tracer
from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import Array
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.expr import Constant
from codesign.ir.relay.module import Module

RunCell: TypeAlias = Callable[[Cell, tuple[Array, ...]], Sequence[Array]]
"""Runs a cell on samples."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Instances of one cell that do not wait for each other."""

    cell: Cell
    instances: tuple[Instance, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a program computes for several inputs, in groups that follow each other."""

    cells: tuple[Cell, ...]
    groups: tuple[Group, ...]
    _inputs: tuple[Mapping[str, Any], ...]
    _results: tuple[Any, ...]
    _homes: Mapping[Made, tuple[Instance, int]]

    def home(self, made: Made) -> tuple[Cell, int]:
        """Return the cell that a call belongs to, and which of its calls it is."""
        instance, place = self._homes[made]
        return self.cells[instance.cell], place

    def run(self, run_cell: RunCell) -> tuple[Any, ...]:
        """Return main's result for each input, in their order."""
        memory = _Memory(self._inputs, self._homes, {})
        for group in self.groups:
            if group.cell.alone:
                for instance in group.instances:
                    read = tuple(map(memory.read, instance.reads))
                    memory.keep(
                        (instance,), group.cell, [[each] for each in run_cell(group.cell, read)]
                    )
                continue
            columns = zip(*(instance.reads for instance in group.instances), strict=True)
            samples = tuple(np.stack([memory.read(each) for each in column]) for column in columns)
            memory.keep(group.instances, group.cell, run_cell(group.cell, samples))
        return tuple(map(memory.value, self._results))


def batch(module: Module, inputs: Sequence[Mapping[str, Any]]) -> Plan:
    """Return how `main` computes all inputs together; each holds main's parameters by name.

    Tensors are arrays, data `DataValue`s.

    Raises
    ------
    CodesignError
        What the program does next depends on a tensor, a construct has no form beside others, or
        inputs are missing.
    """
    tracer = Tracer(module)
    results = tuple(tracer.follow(each) for each in inputs)
    symbols = [symbol for result in results for symbol in _symbols_of(result)]
    found = cells_of(tracer.calls, symbols)
    return Plan(found.cells, _groups(found), tuple(inputs), results, found.homes)


def _groups(found: Cells) -> tuple[Group, ...]:
    together: dict[tuple[int, int], list[Instance]] = defaultdict(list)
    for instance in found.instances:
        together[instance.level, instance.cell].append(instance)
    return tuple(
        Group(found.cells[cell], tuple(together[level, cell])) for level, cell in sorted(together)
    )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Memory:
    """What instances have given so far: for each its results by call and field."""

    inputs: tuple[Mapping[str, Any], ...]
    homes: Mapping[Made, tuple[Instance, int]]
    results: dict[Instance, dict[tuple[int, int], Array]]

    def keep(
        self, instances: Sequence[Instance], cell: Cell, columns: Sequence[Array | list[Array]]
    ) -> None:
        for row, instance in enumerate(instances):
            given = (column[row] for column in columns)
            self.results[instance] = dict(zip(cell.outputs, given, strict=True))

    def read(self, read: Read) -> Array:
        if not isinstance(read, Symbol):
            return read
        match read.source:
            case Given(run=run, name=name):
                return np.asarray(self.inputs[run][name])
            case Field(made=made, index=index):
                instance, call = self.homes[made]
                return np.asarray(self.results[instance][call, index])
            case Row(of=of, index=index, span=span):
                rows = self.read(of)
                if not -len(rows) <= index < len(rows):
                    raise CodesignError(
                        Problem(
                            what="take reads outside the tensor",
                            found=f"index {index} of an axis of length {len(rows)}",
                            span=span,
                        )
                    )
                return np.asarray(rows[index])
            case Piece(of=of, axis=axis, begin=begin, end=end):
                return np.asarray(self.read(of)[(slice(None),) * axis + (slice(begin, end),)])

    def value(self, result: Any) -> Any:
        """Return a result of main with its symbols read."""
        match result:
            case Symbol():
                return self.read(result)
            case Constant(value=value):
                return value
            case tuple():
                return tuple(map(self.value, result))
            case DataValue(constructor, fields):
                return DataValue(constructor, tuple(map(self.value, fields)))
            case _:
                return result


def _symbols_of(result: Any) -> list[Symbol]:
    match result:
        case Symbol():
            return [result]
        case tuple():
            return [symbol for each in result for symbol in _symbols_of(each)]
        case DataValue(_, fields):
            return [symbol for each in fields for symbol in _symbols_of(each)]
        case _:
            return []
