"""Which steps become one kernel: as on the host, and elementwise groups with what is theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from codesign.compiler.backends.gpu.prepare import is_widening
from codesign.compiler.lower.anchors import ANCHORS
from codesign.compiler.lower.graph import Graph, Value
from codesign.compiler.lower.group import FUSIBLE, Group, fuse
from codesign.compiler.lower.rules import READS_ONCE

_LIMIT: Final = 48
_WHOLE: Final = frozenset({"reshape", "concatenate"})


def groups_of(graph: Graph) -> list[Group]:
    """Return groups in order; a widening of float16 at the end of one is left to the readers."""
    return _joined(graph, list(_narrow(graph)))


def _narrow(graph: Graph) -> Iterator[Group]:
    for group in fuse(graph, ANCHORS):
        *before, last = group.steps
        if before and is_widening(last):
            yield Group(tuple(before))
            yield Group((last,))
        else:
            yield group


def _joined(graph: Graph, groups: list[Group]) -> list[Group]:
    """Put elementwise groups into the only group that reads them, if that is elementwise too."""
    readers: dict[Value, set[int]] = {value: {-1} for value in graph.outputs}
    for number, group in enumerate(groups):
        for step in group.steps:
            for value in step.inputs:
                readers.setdefault(value, set()).add(number)
    found: list[Group | None] = list(groups)
    for number, group in enumerate(groups):
        mine = found[number]
        users = readers.get(group.result, set())
        if mine is None or len(users) != 1 or not _is_elementwise(group):
            continue
        (user,) = users
        reader = found[user] if user > number else None
        if reader is None or not _is_elementwise(groups[user]):
            continue
        steps = (*mine.steps, *reader.steps)
        if reader.result.shape == group.result.shape and len(steps) <= _LIMIT:
            found[user] = Group(steps)
            found[number] = None
    return [group for group in found if group is not None]


def _is_elementwise(group: Group) -> bool:
    first, *rest = group.steps
    is_cheap = first.operator in READS_ONCE - _WHOLE and not is_widening(first)
    return is_cheap and all(step.operator in FUSIBLE for step in rest)
