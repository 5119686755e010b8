"""Post-dominators of a graph of calls: the node through which everything from a node must pass.

Source: Chen et al., "TVM" (2018), section 3; TVM's graph_partitioner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Edge:
    """A use of a node's value by another node, and how that one reads it."""

    target: int
    pattern: int


@final
@dataclass(frozen=True, slots=True)
class PostDominator:
    """The node that all paths reach first, the greatest pattern on the way; depth in the tree."""

    parent: int | None
    pattern: int
    depth: int


def post_dominators(
    edges: Sequence[Sequence[Edge]], escapes: Sequence[bool], opaque: int
) -> list[PostDominator]:
    """Return the immediate post-dominator of each node, of nodes in order of evaluation.

    `edges[i]` are the uses of node i, all by later nodes. A node that escapes (its value is also
    used outside) or that nothing uses has none.
    """
    result: list[PostDominator] = [PostDominator(None, opaque, 1)] * len(edges)

    def common(lhs: int | None, rhs: int | None, pattern: int) -> tuple[int | None, int]:
        while lhs != rhs:
            if lhs is None or rhs is None:
                return None, opaque
            left, right = result[lhs], result[rhs]
            if left.depth >= right.depth:
                pattern, lhs = max(pattern, left.pattern), left.parent
            if right.depth >= left.depth:
                pattern, rhs = max(pattern, right.pattern), right.parent
        return lhs, pattern

    for node in reversed(range(len(edges))):
        if escapes[node] or not edges[node]:
            continue
        first, *others = edges[node]
        parent: int | None = first.target
        pattern = first.pattern
        for edge in others:
            parent, pattern = common(parent, edge.target, max(pattern, edge.pattern))
        depth = 1 if parent is None else result[parent].depth + 1
        result[node] = PostDominator(parent, pattern, depth)
    return result
