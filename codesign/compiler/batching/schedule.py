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

from codesign.compiler.batching.cells import Cell, Cells, Instance, cells_of
from codesign.compiler.batching.memory import Column, Memory, column_of
from codesign.compiler.batching.trace import Made, Symbol, Tracer
from codesign.dtypes import Array
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.module import Module

RunCell: TypeAlias = Callable[[Cell, tuple[Array, ...]], Sequence[Array]]
"""Runs a cell on samples."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Instances of one cell that do not wait for each other, and what each parameter gets."""

    cell: Cell
    instances: tuple[Instance, ...]
    columns: tuple[Column, ...]


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
        memory = Memory(self._inputs, self._homes)
        for group in self.groups:
            given: Sequence[Array | list[Array]]
            if group.cell.alone:
                singles = [
                    run_cell(group.cell, tuple(map(memory.read, instance.reads)))
                    for instance in group.instances
                ]
                given = [list(each) for each in zip(*singles, strict=True)]
            else:
                given = run_cell(group.cell, tuple(map(memory.samples, group.columns)))
            memory.results.append(dict(zip(group.cell.outputs, given, strict=True)))
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
    order = sorted(together)
    for number, key in enumerate(order):
        for row, instance in enumerate(together[key]):
            instance.group, instance.row = number, row
    alone = [found.cells[cell].alone for _, cell in order]
    groups = []
    for level, cell in order:
        instances = tuple(together[level, cell])
        columns = zip(*(instance.reads for instance in instances), strict=True)
        groups.append(
            Group(
                found.cells[cell],
                instances,
                tuple(column_of(column, found.homes, alone) for column in columns),
            )
        )
    return tuple(groups)


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
