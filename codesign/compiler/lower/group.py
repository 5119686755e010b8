"""Fusion: which steps become one kernel.

A group begins at a step and grows through elementwise consumers of the same shape as long as one
tensor alone leaves it, so that nothing inside is ever stored. Diamonds (a tensor that is used twice
on the way to one result) are inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from codesign.compiler.lower.elementwise import RULES as ELEMENTWISE
from codesign.compiler.lower.graph import Graph, Step, Value
from codesign.compiler.lower.quantized import RULES as QUANTIZED

FUSIBLE: Final = frozenset(ELEMENTWISE) | frozenset(QUANTIZED)
"""Operators whose result at an index depends on operands at that index (or broadcast) only."""

_ALONE: Final = frozenset({"reshape", "concatenate"})
_LIMIT: Final = 24


@final
@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Steps in order; the first is the anchor, the last one's result leaves the group."""

    steps: tuple[Step, ...]

    @property
    def anchor(self) -> Step:
        """The step that the others were fused to."""
        return self.steps[0]

    @property
    def result(self) -> Value:
        """The tensor that the group computes."""
        return self.steps[-1].result


def fuse(graph: Graph, anchors: frozenset[str]) -> tuple[Group, ...]:
    """Return the graph's steps in groups, in an order that can be run.

    Operators of `anchors` take their consumers first, so that these do not start groups themselves.
    """
    consumers = _consumers(graph)
    taken: dict[Step, Group] = {}
    order = {step: place for place, step in enumerate(graph.steps)}
    for wanted in (True, False):
        for step in graph.steps:
            if step not in taken and (step.operator in anchors) is wanted:
                group = _grow(step, consumers, taken, order)
                taken.update(dict.fromkeys(group.steps, group))
    ends = {taken[step]: order[taken[step].steps[-1]] for step in graph.steps}
    return tuple(sorted(ends, key=lambda group: ends[group]))


def _consumers(graph: Graph) -> Mapping[Value, list[Step | None]]:
    consumers: dict[Value, list[Step | None]] = {}
    for step in graph.steps:
        for value in dict.fromkeys(step.inputs):
            consumers.setdefault(value, []).append(step)
    for value in graph.outputs:
        consumers.setdefault(value, []).append(None)
    return consumers


def _grow(
    start: Step,
    consumers: Mapping[Value, list[Step | None]],
    taken: Mapping[Step, Group],
    order: Mapping[Step, int],
) -> Group:
    if start.operator in _ALONE:
        return Group((start,))
    inside = [start]
    members = {start}
    best = 1
    shape = start.result.shape
    waiting = {each for each in consumers.get(start.result, ()) if each is not None}
    while waiting and len(inside) < _LIMIT:
        step = min(waiting, key=lambda each: order[each])
        waiting.discard(step)
        fits = step.operator in FUSIBLE and step.result.shape == shape and step not in taken
        if not fits:
            break
        inside.append(step)
        members.add(step)
        waiting |= {each for each in consumers.get(step.result, ()) if each is not None}
        leaving = [
            each
            for each in inside
            if any(user not in members for user in consumers.get(each.result, ()))
        ]
        if leaving == [step]:
            best = len(inside)
    return Group(tuple(inside[:best]))
