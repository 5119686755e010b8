"""fuse-ops: group operators that run as one kernel into Primitive functions.

    nn.relu(add(nn.conv2d(%x, w), %y))
becomes
    (fn (%p0, %p1) { nn.relu(add(nn.conv2d(%p0, w), %p1)) })(%x, %y)
with the attribute Primitive = 1 on the function, called in place. Constants stand inside. Every
call of an operator is in a group, alone if need be. A tuple and a field of one are inside where
what makes them and what reads them is; no group gives a tuple that it makes itself. A group lies in
one block: the body of one function, one branch, one clause.

A node joins its post-dominator where all that lies between may be computed element by element:

    1. an anchor (convolution, product, pool) takes elementwise and broadcast operators after it
    2. elementwise and broadcast operators join injective ones, reductions, and what has an anchor
    3. then injective operators, tuples and fields join what is at most injective, and what is at
       most injective joins tuples that were joined

Source: Chen et al., "TVM" (2018), section 3; Relay's FuseOps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, final

from codesign.compiler.analysis.dominators import Edge, PostDominator, post_dominators
from codesign.compiler.analysis.home_blocks import home_blocks
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Project, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, TupleType, Type
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

    max_depth: int = 256
    """How many nodes a group has at most."""
    max_args: int = 256
    """How many arguments a group takes at most, unless it is one operator."""

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with its operators in groups."""
        types = infer_types(module)
        return map_bodies(module, lambda body: self._fuse(body, types))

    def _fuse(self, body: Expr, types: Mapping[Expr, Type]) -> Expr:
        nodes = tuple(node for node in post_order(body) if not isinstance(node, OpRef))
        groups = _Groups(nodes, body, types, self)
        for phase in range(3):
            groups.run(phase)
        return _extract(body, _owners(nodes, groups.roots()), types)


def _pattern(node: Expr, types: Mapping[Expr, Type]) -> int:
    match node:
        case Call(OpRef(name)):
            return int(OPERATORS[name].fusion)
        case Tuple():
            return _TUPLE
        case Project(value) if _is_flat(types.get(value)):
            return int(Fusion.INJECTIVE)
        case _:
            return _OPAQUE


def _is_flat(type_: Type | None) -> bool:
    """Whether a type is a tuple of tensors."""
    return isinstance(type_, TupleType) and all(isinstance(f, TensorType) for f in type_.fields)


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
        self, nodes: tuple[Expr, ...], body: Expr, types: Mapping[Expr, Type], limits: FuseOps
    ) -> None:
        self._nodes = nodes
        self._patterns = [_pattern(node, types) for node in nodes]
        self._parents = list(range(len(nodes)))
        self._members = [[index] for index in range(len(nodes))]
        self._args = [len(_operands(node)) for node in nodes]
        self._anchors = [pattern == Fusion.ANCHOR for pattern in self._patterns]
        self._limits = limits
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
        if sum(len(self._members[each]) for each in groups) > self._limits.max_depth:
            return False
        most = self._limits.max_args
        if sum(self._args[each] for each in groups) > most and self._arguments(groups) > most:
            return False
        if sum(self._anchors[each] for each in groups) > 1:
            return False
        return all(allowed(self._patterns[self._root(each)], each == sink) for each in way)

    def _arguments(self, groups: set[int]) -> int:
        """Return how many arguments a function of all these groups takes."""
        inside = {self._nodes[each] for group in groups for each in self._members[group]}
        read = {operand for node in inside for operand in _operands(node)}
        return len(read - inside)

    def _join(self, node: int, sink: int) -> None:
        target = self._root(sink)
        for each in (node, *self._between(node, sink)):
            root = self._root(each)
            if root == target:
                continue
            self._parents[root] = target
            self._members[target] += self._members[root]
            self._args[target] += self._args[root]
            if self._anchors[root]:
                self._anchors[target] = True
                self._patterns[target] = max(self._patterns[target], self._patterns[root])


def _operands(node: Expr) -> tuple[Expr, ...]:
    """Return what a grouped node is computed from; constants stand inside of groups."""
    return tuple(each for each in children(node) if not isinstance(each, Constant | OpRef))


def _uses(
    nodes: tuple[Expr, ...], body: Expr, types: Mapping[Expr, Type]
) -> tuple[list[list[Edge]], list[bool]]:
    index = {node: position for position, node in enumerate(nodes)}
    blocks = home_blocks(body)
    edges: list[list[Edge]] = [[] for _ in nodes]
    escapes = [node is body for node in nodes]
    for position, node in enumerate(nodes):
        pattern = _pattern(node, types)
        for child in children(node):
            if child not in index:
                continue
            if pattern < _OPAQUE and blocks[child] is blocks[node]:
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


def _owners(nodes: tuple[Expr, ...], roots: list[int]) -> Mapping[Expr, Expr]:
    """Return for each node that goes into a function the group's last node.

    A tuple or field stays outside where no operator of its group makes it or reads it there.
    """
    members: dict[int, list[Expr]] = {}
    for node, root in zip(nodes, roots, strict=True):
        members.setdefault(root, []).append(node)
    owners: dict[Expr, Expr] = {}
    for root, group in members.items():
        if not any(_is_operator(node) for node in group):
            continue
        inside = set(group)
        for node in group:
            is_taken = isinstance(node, Project) and node.value not in inside
            if not is_taken or node is nodes[root]:
                owners[node] = nodes[root]
    return owners


def _is_operator(node: Expr) -> bool:
    return isinstance(node, Call) and isinstance(node.callee, OpRef)


def _extract(body: Expr, owners: Mapping[Expr, Expr], types: Mapping[Expr, Type]) -> Expr:
    params = {
        group: {child: Var(f"p{number}", types[child]) for number, child in enumerate(read)}
        for group, read in _read_from_outside(owners).items()
    }
    rebuilt_of: dict[Expr, Expr] = {}

    def inside(group: Expr, child: Expr, value: Expr) -> Expr:
        """Return what a node of the group reads for a child: its value there, or a parameter."""
        return params[group].get(child, value)

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        group = owners.get(original)
        rebuilt_of[original] = rebuilt
        if group is None:
            return rebuilt
        pairs = zip(children(original), children(rebuilt), strict=True)
        made = with_children(rebuilt, tuple(inside(group, old, new) for old, new in pairs))
        if original is not group:
            return made
        known = params[group]
        function = Function(
            tuple(known.values()), made, types[group], {"Primitive": 1}, span=original.span
        )
        call = Call(function, tuple(rebuilt_of[each] for each in known), None, original.span)
        rebuilt_of[original] = call
        return call

    return rewrite_pairs(body, rule)


def _read_from_outside(owners: Mapping[Expr, Expr]) -> Mapping[Expr, list[Expr]]:
    """Return what each group reads, in the order in which it is evaluated."""

    def read(group: Expr) -> list[Expr]:
        nodes = post_order(group, below=lambda n: _operands(n) if owners.get(n) is group else ())
        return [node for node in nodes if owners.get(node) is not group]

    return {group: read(group) for group in dict.fromkeys(owners.values())}
