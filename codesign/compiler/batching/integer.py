"""Cells of a plan in integers: one quantization for all, so that states go from cell to cell.

What one cell gives and another reads has one scale. Cells with an operator that has no integer
form stay in floating point, on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from codesign.compiler.batching.cells import Cell
from codesign.compiler.batching.gates import gates_apart
from codesign.compiler.batching.schedule import Plan
from codesign.compiler.batching.trace import Field, Symbol
from codesign.compiler.pipelines import optimize
from codesign.compiler.quantization.calibrate import Evaluator, interpret
from codesign.compiler.quantization.cell import IntegerCell, Tie, has_integer_form, quantize_cell
from codesign.compiler.quantization.config import QuantizationConfig
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.expr import Expr, Function, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import substitute

ROWS = 8
"""Samples of each cell that are looked at together."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class IntegerCells:
    """The cells of a plan that have an integer form; results are in their own order."""

    cells: Mapping[Cell, IntegerCell]

    def module(self, cell: Cell, samples: int) -> Module:
        """Return a cell from codes to codes for a number of samples."""
        main = self.cells[cell].module.main
        params: dict[Var, Expr] = {param: _with_rows(param, samples) for param in main.params}
        body = substitute(main.body, params)
        resized = tuple(each for each in params.values() if isinstance(each, Var))
        return Module({"main": Function(resized, body)})


def integer_cells(
    plan: Plan,
    seen: Mapping[Cell, Sequence[tuple[Array, ...]]],
    *,
    evaluate: Evaluator = interpret,
    config: QuantizationConfig | None = None,
) -> IntegerCells:
    """Return the cells of a plan in integers; `seen` is what each was given in fp32.

    Raises
    ------
    CodesignError
        No cell has an integer form, or a value is not finite.
    """
    modules = {
        cell: gates_apart(optimize(cell.module(ROWS))) for cell in plan.cells if not cell.alone
    }
    chosen = {cell: module for cell, module in modules.items() if has_integer_form(module)}
    if not chosen:
        raise CodesignError.of("no cell of the program has an integer form")
    joint, first = _joined(chosen)
    made = quantize_cell(
        joint,
        _samples({cell: seen[cell] for cell in chosen}),
        states=_ties(plan, first),
        evaluate=evaluate,
        config=config,
    )
    return IntegerCells({cell: _part(made, cell, first[cell]) for cell in chosen})


def _joined(modules: Mapping[Cell, Module]) -> tuple[Module, dict[Cell, int]]:
    """Return one module of all cells, and which of its results is the first of each cell."""
    params: list[Var] = []
    results: list[Expr] = []
    first: dict[Cell, int] = {}
    for cell, module in modules.items():
        main = module.main
        own: dict[Var, Expr] = {
            param: Var(_name(cell, index), param.annotation)
            for index, param in enumerate(main.params)
        }
        params += [each for each in own.values() if isinstance(each, Var)]
        body = substitute(main.body, own)
        assert isinstance(body, Tuple), "a cell gives a tuple"
        first[cell] = len(results)
        results += body.fields
    return Module({"main": Function(tuple(params), Tuple(tuple(results)))}), first


def _name(cell: Cell, index: int) -> str:
    return f"{cell.name}_x{index}"


def _samples(
    seen: Mapping[Cell, Sequence[tuple[Array, ...]]],
) -> list[dict[str, Array]]:
    """Return inputs of the joint module: all that was seen; cells with less begin again."""
    columns = {
        cell: [np.concatenate(parts) for parts in zip(*groups, strict=True)]
        for cell, groups in seen.items()
    }
    most = max(len(parts[0]) for parts in columns.values())
    found = []
    for start in range(0, most, ROWS):
        rows = np.arange(start, start + ROWS)
        found.append(
            {
                _name(cell, index): part[rows % len(part)]
                for cell, parts in columns.items()
                for index, part in enumerate(parts)
            }
        )
    return found


def _ties(plan: Plan, first: Mapping[Cell, int]) -> tuple[Tie, ...]:
    """Return which parameters of cells are results of which."""
    found: dict[Tie, None] = {}
    for group in plan.groups:
        if group.cell not in first:
            continue
        for instance in group.instances:
            for index, read in enumerate(instance.reads):
                source = read.root.source if isinstance(read, Symbol) else None
                if not isinstance(source, Field):
                    continue
                giver, call = plan.home(source.made)
                if giver in first:
                    place = giver.outputs.index((call, source.index))
                    found[_name(group.cell, index), first[giver] + place] = None
    return tuple(found)


def _part(made: IntegerCell, cell: Cell, first: int) -> IntegerCell:
    """Return one cell of the joint module."""
    main = made.module.main
    assert isinstance(main.body, Tuple), "cells together give a tuple"
    count = len(cell.outputs)
    body = Tuple(main.body.fields[first : first + count])
    names = {_name(cell, index): f"x{index}" for index in range(len(cell.params))}
    own: dict[Var, Expr] = {
        param: replace(param, name=names[param.name])
        for param in main.params
        if param.name in names
    }
    params = tuple(each for each in own.values() if isinstance(each, Var))
    return IntegerCell(
        Module({"main": Function(params, substitute(body, own))}),
        {new: made.inputs[old] for old, new in names.items()},
        made.outputs[first : first + count],
    )


def _with_rows(param: Var, samples: int) -> Var:
    type_ = param.annotation
    assert isinstance(type_, TensorType), "a cell takes tensors"
    return replace(param, annotation=replace(type_, shape=(samples, *type_.shape[1:])))
