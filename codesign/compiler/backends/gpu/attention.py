"""Attention as one step: scores, their softmax, and what they weight.

    softmax(f(query @ keys)) @ values        f is elementwise: a scale, a mask

Matched after `rows.with_rows`, which makes one step of a softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from codesign.compiler.backends.gpu.prepare import is_widening
from codesign.compiler.backends.gpu.rows import ROWS, RowsAttrs
from codesign.compiler.lower.graph import Graph, Step, Value
from codesign.compiler.lower.group import FUSIBLE
from codesign.ir.relay.expr import Attrs

ATTENTION: Final = "gpu.attention"
"""The name of steps that are attention."""

_MATMUL: Final = "nn.matmul"
_SOFTMAX: Final = ("max", "subtract", "exp", "sum", "divide")


@final
@dataclass(frozen=True, kw_only=True)
class AttentionAttrs(Attrs):
    """The steps: to the scores, their softmax, and from the weights to the result."""

    scores: tuple[Step, ...]
    softmax: Step
    weighted: tuple[Step, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in order."""
        return (*self.scores, self.softmax, *self.weighted)


def with_attention(graph: Graph) -> Graph:
    """Return an equal graph in which attention is one step."""
    uses: dict[Value, list[Step | None]] = {}
    for step in graph.steps:
        for value in dict.fromkeys(step.inputs):
            uses.setdefault(value, []).append(step)
    for value in graph.outputs:
        uses.setdefault(value, []).append(None)
    producers = {step.result: step for step in graph.steps}
    found: dict[Step, AttentionAttrs] = {}
    for step in graph.steps:
        match = _attention(step, uses, producers) if step.operator == ROWS else None
        if match is not None:
            found[match.weighted[-1]] = match
    taken = {step for match in found.values() for step in match.steps}
    steps: list[Step] = []
    for step in graph.steps:
        if step in found:
            steps.append(_as_step(found[step]))
        elif step not in taken:
            steps.append(step)
    return Graph(graph.inputs, tuple(steps), graph.outputs, graph.checks)


def _as_step(match: AttentionAttrs) -> Step:
    inside = {step.result for step in match.steps}
    read = dict.fromkeys(value for step in match.steps for value in step.inputs)
    inputs = tuple(value for value in read if value not in inside)
    return Step(ATTENTION, match, inputs, match.weighted[-1].result, match.softmax.span)


_Uses = Mapping[Value, list[Step | None]]


def _attention(
    softmax: Step, uses: _Uses, producers: Mapping[Value, Step]
) -> AttentionAttrs | None:
    assert isinstance(softmax.attrs, RowsAttrs), "the attributes of steps over rows"
    source = _softmaxed(softmax.attrs.steps)
    if source is None:
        return None
    scores = _scores(source, uses, producers)
    weighted = _weighted(softmax.result, uses)
    if scores is None or weighted is None:
        return None
    return AttentionAttrs(scores=scores, softmax=softmax, weighted=weighted)


def _softmaxed(steps: tuple[Step, ...]) -> Value | None:
    """Return what steps are a softmax of, which may end with a cast."""
    names = tuple(step.operator for step in steps)
    if names[:5] != _SOFTMAX or names[5:] not in ((), ("cast",)):
        return None
    greatest, shifted, power, total, share = steps[:5]
    (source,) = greatest.inputs
    is_softmax = (
        shifted.inputs == (source, greatest.result)
        and power.inputs == (shifted.result,)
        and total.inputs == (power.result,)
        and share.inputs == (power.result, total.result)
    )
    return source if is_softmax else None


def _scores(value: Value, uses: _Uses, producers: Mapping[Value, Step]) -> tuple[Step, ...] | None:
    """Return the product and the elementwise steps that end at a value and at nothing else."""
    steps: list[Step] = []
    while True:
        step = producers.get(value)
        if step is None or len(uses[value]) != 1:
            return None
        steps.insert(0, step)
        if step.operator == _MATMUL:
            return tuple(steps)
        if step.operator not in FUSIBLE:
            return None
        whole = [each for each in step.inputs if each.shape == value.shape and each in producers]
        if len(whole) != 1:
            return None
        (value,) = whole


def _weighted(value: Value, uses: _Uses) -> tuple[Step, ...] | None:
    """Return the product that takes the weights as its left factor, with casts around it."""
    steps: list[Step] = []
    while len(steps) < 2:
        users = uses.get(value, [])
        step = users[0] if len(users) == 1 else None
        if step is None:
            return None
        steps.append(step)
        if step.operator == _MATMUL:
            if step.inputs[0] is not value or step.inputs[1] is value:
                return None
            after = uses.get(step.result, [])
            last = after[0] if len(after) == 1 else None
            if last is not None and last.operator == "cast":
                steps.append(last)
            return tuple(steps)
        if not is_widening(step):
            return None
        value = step.result
    return None
