"""fuse-ops: group operators that run as one kernel into Primitive functions.

    nn.relu(add(nn.conv2d(%x, w), %y))
becomes
    (fn (%p0, %p1) { nn.relu(add(nn.conv2d(%p0, w), %p1)) })(%x, %y)
with the attribute Primitive = 1 on the function, called in place. Constants stand inside. Every
call of an operator is in a group, alone if need be; no group's result is a tuple that it makes.

A node joins its post-dominator where all that lies between may be computed element by element:

    1. an anchor (convolution, product, pool) takes elementwise and broadcast operators after it
    2. elementwise and broadcast operators join injective ones, reductions, and what has an anchor
    3. then injective operators join what is at most injective

Source: Chen et al., "TVM" (2018), section 3; Relay's FuseOps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, final

from codesign.compiler.analysis.dominators import Edge, PostDominator, post_dominators
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, Type
from codesign.ir.relay.visit import children, post_order, rewrite_pairs, with_children
from codesign.ops.operator import Fusion
from codesign.ops.table import OPERATORS

_TUPLE: Final = 7
_OPAQUE: Final = int(Fusion.OPAQUE)


@final
@dataclass(frozen=True, slots=True)
class FuseOps:
    """Put every call of an operator into a Primitive function, several where they can be fused."""

    name: ClassVar[str] = "fuse-ops"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.INFERENCE})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.FUSED})

    max_operators: int = 256

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with its operators in groups."""
        types = infer_types(module)
        return map_bodies(module, lambda body: _fuse(body, types, self.max_operators))


def _fuse(body: Expr, types: Mapping[Expr, Type], limit: int) -> Expr:
    nodes = tuple(node for node in post_order(body) if not isinstance(node, OpRef))
    groups = _Groups(nodes, body, types, limit)
    for phase in range(3):
        groups.run(phase)
    return _extract(body, nodes, groups.roots(), types)


def _pattern(node: Expr) -> int:
    match node:
        case Call(OpRef(name)):
            return int(OPERATORS[name].fusion)
        case Tuple():
            return _TUPLE
        case _:
            return _OPAQUE


def _up_to_broadcast(kind: int, is_sink: bool) -> bool:
    return kind <= Fusion.BROADCAST


def _up_to_injective(kind: int, is_sink: bool) -> bool:
    return kind <= Fusion.INJECTIVE


def _injective_then_any(kind: int, is_sink: bool) -> bool:
    return kind <= (Fusion.ANCHOR if is_sink else Fusion.INJECTIVE)


@final
class _Groups:
    """Which nodes are in one group: a union-find over the nodes of a body."""

    def __init__(
        self, nodes: tuple[Expr, ...], body: Expr, types: Mapping[Expr, Type], limit: int
    ) -> None:
        self._patterns = [_pattern(node) for node in nodes]
        self._parents = list(range(len(nodes)))
        self._sizes = [1] * len(nodes)
        self._anchors = [pattern == Fusion.ANCHOR for pattern in self._patterns]
        self._limit = limit
        self._edges, escapes = _uses(nodes, body, types)
        self._dominators = post_dominators(self._edges, escapes, _OPAQUE)

    def roots(self) -> list[int]:
        """Return for each node the node that stands for its group: the last one."""
        return [self._root(index) for index in range(len(self._parents))]

    def run(self, phase: int) -> None:
        """Join nodes to their post-dominators; phases 0, 1 and 2 as the file's head counts."""
        for node, dominator in enumerate(self._dominators):
            sink = dominator.parent
            if sink is None or self._patterns[self._root(node)] >= _OPAQUE:
                continue
            if self._root(node) == self._root(sink):
                continue
            allowed = self._allowed(node, sink, dominator, phase)
            if allowed is not None and self._is_path(node, sink, allowed):
                self._join(node, sink)

    def _allowed(
        self, node: int, sink: int, dominator: PostDominator, phase: int
    ) -> Callable[[int, bool], bool] | None:
        """Return what nodes may lie on the way and at the end of it, None where none may."""
        mine, is_tuple = self._patterns[self._root(node)], self._patterns[sink] == _TUPLE
        if phase == 2:
            joinable = is_tuple and max(mine, self._patterns[self._root(sink)]) <= Fusion.INJECTIVE
            return _up_to_injective if joinable else None
        if is_tuple:
            return None
        if mine == Fusion.ANCHOR:
            if phase == 0 and dominator.pattern == Fusion.ELEMENTWISE:
                return _up_to_broadcast
            return None
        if mine <= Fusion.BROADCAST:
            return _injective_then_any if dominator.pattern <= Fusion.REDUCTION else None
        if mine in (Fusion.INJECTIVE, _TUPLE) and phase == 1:
            return _up_to_injective
        return None

    def _root(self, index: int) -> int:
        while self._parents[index] != index:
            self._parents[index] = self._parents[self._parents[index]]
            index = self._parents[index]
        return index

    def _between(self, node: int, sink: int) -> list[int]:
        """Return every node on a path from `node`, left out, to `sink`, included."""
        found: list[int] = []
        seen: set[int] = set()
        pending = [edge.target for edge in self._edges[node]]
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            found.append(each)
            if each != sink:
                pending += [edge.target for edge in self._edges[each]]
        return found

    def _is_path(self, node: int, sink: int, allowed: Callable[[int, bool], bool]) -> bool:
        way = self._between(node, sink)
        groups = {self._root(each) for each in way} | {self._root(node)}
        if sum(self._sizes[each] for each in groups) > self._limit:
            return False
        if sum(self._anchors[each] for each in groups) > 1:
            return False
        return all(allowed(self._patterns[self._root(each)], each == sink) for each in way)

    def _join(self, node: int, sink: int) -> None:
        target = self._root(sink)
        for each in (node, *self._between(node, sink)):
            root = self._root(each)
            if root == target:
                continue
            self._parents[root] = target
            self._sizes[target] += self._sizes[root]
            if self._anchors[root]:
                self._anchors[target] = True
                self._patterns[target] = max(self._patterns[target], self._patterns[root])


def _uses(
    nodes: tuple[Expr, ...], body: Expr, types: Mapping[Expr, Type]
) -> tuple[list[list[Edge]], list[bool]]:
    index = {node: position for position, node in enumerate(nodes)}
    edges: list[list[Edge]] = [[] for _ in nodes]
    escapes = [node is body for node in nodes]
    for position, node in enumerate(nodes):
        pattern = _pattern(node)
        for child in children(node):
            if child not in index:
                continue
            if isinstance(node, Call | Tuple) and pattern < _OPAQUE:
                same = pattern == Fusion.BROADCAST and _is_same_shape(child, node, types)
                edge = int(Fusion.ELEMENTWISE) if same else pattern
                edges[index[child]].append(Edge(position, edge))
            else:
                escapes[index[child]] = True
    return edges, escapes


def _is_same_shape(child: Expr, node: Expr, types: Mapping[Expr, Type]) -> bool:
    match types.get(child), types.get(node):
        case TensorType(shape), TensorType(wanted):
            return shape == wanted
        case _:
            return False


def _extract(
    body: Expr, nodes: tuple[Expr, ...], roots: list[int], types: Mapping[Expr, Type]
) -> Expr:
    root_of = {node: nodes[root] for node, root in zip(nodes, roots, strict=True)}
    params: dict[Expr, dict[Expr, Var]] = {}
    arguments: dict[Expr, list[Expr]] = {}

    def inside(group: Expr, child: Expr, value: Expr) -> Expr:
        """Return what a node of the group reads for a child: its value there, or a parameter."""
        if isinstance(child, Constant | OpRef) or root_of[child] is group:
            return value
        known = params.setdefault(group, {})
        if child not in known:
            known[child] = Var(f"p{len(known)}", types[child])
            arguments.setdefault(group, []).append(value)
        return known[child]

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        if not _is_grouped(original, root_of):
            return rebuilt
        group = root_of[original]
        pairs = zip(children(original), children(rebuilt), strict=True)
        made = with_children(rebuilt, tuple(inside(group, old, new) for old, new in pairs))
        if original is not group:
            return made
        known = tuple(params.get(group, {}).values())
        function = Function(known, made, types[group], {"Primitive": 1}, span=original.span)
        return Call(function, tuple(arguments.get(group, ())), None, original.span)

    return rewrite_pairs(body, rule)


def _is_grouped(node: Expr, root_of: Mapping[Expr, Expr]) -> bool:
    """Whether a node goes into a Primitive function: calls, and tuples that a group reads."""
    match node:
        case Call(OpRef()):
            return True
        case Tuple():
            return root_of[node] is not node
        case _:
            return False
