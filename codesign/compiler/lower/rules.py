"""How the general path computes an element of each operator's result; fusion by inlining."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from codesign.compiler.lower import elementwise, movement, quantized, reductions
from codesign.compiler.lower.graph import Value
from codesign.compiler.lower.group import Group
from codesign.compiler.lower.rule import Rule
from codesign.ir.tensor.compute import Expr, Load
from codesign.ir.tensor.index import Index
from codesign.ir.tensor.layout import Buffer

RULES: Final[Mapping[str, Rule]] = {
    **elementwise.RULES,
    **quantized.RULES,
    **movement.RULES,
    **reductions.RULES,
}
"""The rule of every operator that has one."""

READS_ONCE: Final = (
    frozenset(elementwise.RULES) | frozenset(quantized.RULES) | frozenset(movement.RULES)
)
"""Operators that look at each element of their operands a few times at most."""


def expression(
    group: Group,
    index: tuple[Index, ...],
    buffer_of: Callable[[Value], Buffer],
    accumulator: Expr | None,
) -> Expr:
    """Return the group's result at an index, with everything inside the group inlined.

    `buffer_of` gives the operands; the anchor is `accumulator` where a hand-blocked
    kernel has it.
    """
    producers = {step.result: step for step in group.steps}
    known: dict[tuple[Value, tuple[Index, ...]], Expr] = {}

    def element(value: Value, place: tuple[Index, ...]) -> Expr:
        key = (value, place)
        if key not in known:
            known[key] = fresh(value, place)
        return known[key]

    def fresh(value: Value, place: tuple[Index, ...]) -> Expr:
        step = producers.get(value)
        if step is None:
            return Load(buffer_of(value), place)
        if accumulator is not None and step is group.anchor:
            return accumulator
        rule = RULES[step.operator]
        return rule(step, place, lambda number, at_: element(step.inputs[number], at_))

    return element(group.result, index)
