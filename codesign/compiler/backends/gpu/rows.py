"""Steps that look at whole rows, as one kernel: softmax, normalization, and what is around them.

    e = exp(x - max x); e / sum e        reads x once and writes the result once

A row is what lies along a tensor's last axis. Each thread of a row keeps its elements in registers
between one reduction and the next; lanes and warps join what they have reduced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from codesign.compiler.backends.gpu.joins import EXCHANGED_BYTES
from codesign.compiler.backends.gpu.prepare import is_widening
from codesign.compiler.lower.graph import Graph, Step, Value
from codesign.compiler.lower.group import FUSIBLE
from codesign.ir.relay.expr import Attrs
from codesign.ir.tensor.compute import Reduction
from codesign.ops.reduce import ReduceAttrs

ROWS: Final = "gpu.rows"
"""The name of steps that are several steps over rows."""

KINDS: Final = {
    "sum": Reduction.SUM,
    "prod": Reduction.PRODUCT,
    "max": Reduction.MAXIMUM,
    "min": Reduction.MINIMUM,
}

SHORTEST: Final = 16
LONGEST: Final = 8192
_LIMIT: Final = 32


@final
@dataclass(frozen=True, kw_only=True)
class RowsAttrs(Attrs):
    """The steps, in order; the last one's result is all that is left of them."""

    steps: tuple[Step, ...]


def is_over_rows(step: Step) -> bool:
    """Whether a step reduces the last axis and keeps it with extent 1."""
    if step.operator not in KINDS or not isinstance(step.attrs, ReduceAttrs):
        return False
    shape = step.inputs[0].shape
    axes = tuple(axis % len(shape) for axis in step.attrs.axis)
    return (
        step.attrs.keepdims
        and axes == (len(shape) - 1,)
        and SHORTEST <= shape[-1] <= LONGEST
        and step.result.dtype.size_bytes == EXCHANGED_BYTES
    )


def with_rows(graph: Graph) -> Graph:
    """Return an equal graph in which steps over the same rows are one."""
    consumers: dict[Value, list[Step | None]] = {}
    for step in graph.steps:
        for value in dict.fromkeys(step.inputs):
            consumers.setdefault(value, []).append(step)
    for value in graph.outputs:
        consumers.setdefault(value, []).append(None)
    order = {step: place for place, step in enumerate(graph.steps)}
    taken: set[Step] = set()
    ends: dict[Step, tuple[Step, ...]] = {}
    for step in graph.steps:
        if step in taken or not is_over_rows(step):
            continue
        steps = _grown(step, consumers, taken, order)
        if len(steps) > 1:
            taken.update(steps)
            ends[steps[-1]] = steps
    return Graph(graph.inputs, tuple(_replaced(graph, taken, ends)), graph.outputs, graph.checks)


def _replaced(
    graph: Graph, taken: set[Step], ends: Mapping[Step, tuple[Step, ...]]
) -> Sequence[Step]:
    steps: list[Step] = []
    for step in graph.steps:
        if step in ends:
            inside = {each.result for each in ends[step]}
            read = dict.fromkeys(value for each in ends[step] for value in each.inputs)
            inputs = tuple(value for value in read if value not in inside)
            attrs = RowsAttrs(steps=ends[step])
            steps.append(Step(ROWS, attrs, inputs, step.result, step.span))
        elif step not in taken:
            steps.append(step)
    return steps


def _grown(
    start: Step,
    consumers: Mapping[Value, list[Step | None]],
    taken: set[Step],
    order: Mapping[Step, int],
) -> tuple[Step, ...]:
    """Take consumers over the same rows, as long as one tensor alone leaves them."""
    shape = start.inputs[0].shape
    narrow = (*shape[:-1], 1)
    inside, members, best = [start], {start}, 1

    def fits(step: Step) -> bool:
        if step in taken:
            return False
        if is_over_rows(step):
            return step.inputs[0].shape == shape
        return step.operator in FUSIBLE and step.result.shape in (shape, narrow)

    def users(value: Value) -> set[Step]:
        return {each for each in consumers.get(value, ()) if each is not None}

    waiting = users(start.result)
    while waiting and len(inside) < _LIMIT:
        step = min(waiting, key=lambda each: order[each])
        waiting.discard(step)
        if not fits(step):
            break
        inside.append(step)
        members.add(step)
        waiting |= users(step.result) - members
        leaving = [
            each
            for each in inside
            if any(user not in members for user in consumers.get(each.result, ()))
        ]
        if leaving == [step]:
            best = len(inside)
    while best > 1 and is_widening(inside[best - 1]):
        best -= 1  # whoever reads float16 can widen it
    return tuple(inside[:best])
