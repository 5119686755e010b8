"""The block of each node: the innermost function body, branch or clause around all its uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

from codesign.ir.relay.expr import Expr, Function, If, Match
from codesign.ir.relay.visit import children, post_order


@final
@dataclass(frozen=True, slots=True, eq=False)
class HomeBlock:
    """A block inside of another; identity is the node."""

    outer: HomeBlock | None = None
    depth: int = 0


def home_blocks(body: Expr) -> Mapping[Expr, HomeBlock]:
    """Return the block in which each node of a function's body is evaluated."""
    found: dict[Expr, HomeBlock] = {body: HomeBlock()}
    for node in reversed(tuple(post_order(body))):
        for child, block in _placed(node, found[node]):
            known = found.get(child)
            found[child] = block if known is None else _common(known, block)
    return found


def _placed(node: Expr, block: HomeBlock) -> Iterator[tuple[Expr, HomeBlock]]:
    """Yield the children of a node with the block in which it needs them."""
    match node:
        case Function():
            inner = _inside(block)
            yield from ((child, inner) for child in children(node))
        case If(condition, then, otherwise):
            yield condition, block
            yield then, _inside(block)
            yield otherwise, _inside(block)
        case Match(value):
            yield value, block
            yield from _in_clauses(node, block)
        case _:
            yield from ((child, block) for child in children(node))


def _in_clauses(node: Match, block: HomeBlock) -> Iterator[tuple[Expr, HomeBlock]]:
    bodies = {clause.body: _inside(block) for clause in node.clauses}
    for child in children(node)[1:]:
        yield child, bodies.get(child, block)


def _inside(block: HomeBlock) -> HomeBlock:
    return HomeBlock(block, block.depth + 1)


def _common(left: HomeBlock, right: HomeBlock) -> HomeBlock:
    while left is not right:
        deeper = left if left.depth >= right.depth else right
        outer = deeper.outer
        assert outer is not None, "all blocks of a body lie in one"
        if deeper is left:
            left = outer
        else:
            right = outer
    return left
