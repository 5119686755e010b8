"""Calls of operators into regions, each of which runs as one kernel.

An operator waits until something needs its result, so that those whose operands come from
different calls still meet in one region. Operators have no effect, which lets them wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from codesign.compiler.native.simplify import simplify
from codesign.dtypes import Array
from codesign.ir.control.program import (
    Block,
    Branch,
    End,
    Function,
    Instruction,
    Literal,
    Operator,
    Program,
    Region,
    Value,
)
from codesign.ir.control.uses import borrowed, end_borrowed, end_given, given


def group(program: Program) -> Program:
    """Return the program with regions in the place of operators."""
    functions = tuple(_grouped(each) for each in program.functions)
    return simplify(replace(program, functions=functions))


def _grouped(function: Function) -> Function:
    literals = {
        each.result: each.array
        for block in function.blocks
        for each in block.body
        if isinstance(each, Literal)
    }
    drafts = {block.label: _draft(block) for block in function.blocks}
    uses = _uses(function, drafts)
    blocks = tuple(
        Block(
            block.label,
            block.params,
            tuple(
                _region(each, literals, uses, block.end) if isinstance(each, list) else each
                for each in drafts[block.label]
            ),
            block.end,
        )
        for block in function.blocks
    )
    return replace(function, blocks=blocks)


def _draft(block: Block) -> list[Instruction | list[Operator]]:
    """Return the block's instructions with a list of operators where a region shall run."""
    draft: list[Instruction | list[Operator]] = []
    waiting: dict[Value, Operator] = {}
    for each in block.body:
        if isinstance(each, Operator):
            waiting.update(dict.fromkeys(each.results, each))
            continue
        _run((*given(each), *borrowed(each)), waiting, draft)
        draft.append(each)
    _run(tuple(waiting), waiting, draft)
    return draft


def _run(
    wanted: Sequence[Value],
    waiting: dict[Value, Operator],
    draft: list[Instruction | list[Operator]],
) -> None:
    """Let the operators run that compute what is wanted, in the order of their writing."""
    chosen: set[Operator] = set()
    pending = list(wanted)
    while pending:
        operator = waiting.get(pending.pop())
        if operator is not None and operator not in chosen:
            chosen.add(operator)
            pending += operator.inputs
    if not chosen:
        return
    draft.append([each for each in dict.fromkeys(waiting.values()) if each in chosen])
    for operator in chosen:
        for result in operator.results:
            del waiting[result]


def _uses(
    function: Function, drafts: Mapping[int, Sequence[Instruction | list[Operator]]]
) -> dict[Value, int]:
    """Return how many instructions, regions and ends use each value."""
    uses: dict[Value, int] = {}
    for block in function.blocks:
        for each in drafts[block.label]:
            if isinstance(each, list):
                inside = {result for operator in each for result in operator.results}
                used = {value for operator in each for value in operator.inputs} - inside
            else:
                used = {*given(each), *borrowed(each)}
            for value in used:
                uses[value] = uses.get(value, 0) + 1
        for value in {*end_given(block.end), *end_borrowed(block.end)}:
            uses[value] = uses.get(value, 0) + 1
    return uses


def _region(
    operators: list[Operator],
    literals: Mapping[Value, Array],
    uses: Mapping[Value, int],
    end: End,
) -> Region:
    made = [result for operator in operators for result in operator.results]
    read = dict.fromkeys(value for operator in operators for value in operator.inputs)
    results = tuple(value for value in made if uses.get(value, 0))
    flags = frozenset(
        value
        for value in results
        if isinstance(end, Branch) and end.condition is value and uses[value] == 1
    )
    return Region(
        results,
        tuple(value for value in read if value not in literals and value not in set(made)),
        tuple(operators),
        {value: literals[value] for value in read if value in literals},
        flags,
    )
