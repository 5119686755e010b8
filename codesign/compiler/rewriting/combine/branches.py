"""Parallel branches: calls of one operator on one tensor, and what follows each of them alike.

A branch begins with an anchor, a call whose weight is a constant or a parameter of the function, so
that all weights are known where the first branch is computed. It goes on through elementwise
operators as long as every branch has the same one, with constants that can stand side by side along
the axis of the results, and nothing else reads what is between.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, final

import numpy as np

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.analysis.home_blocks import HomeBlock, home_blocks
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Tuple
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import children, post_order, rewrite_pairs
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.operator import Fusion
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.table import OPERATORS

_BROADCASTING: Final = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("logical_and", "logical_or", "where"),
    }
)
_VECTORS: Final = frozenset({"nn.bias_add", "nn.prelu", "nn.batch_norm"})
"""Operators whose other arguments are vectors along one axis of the first."""


class Anchor(Protocol):
    """How calls of an operator are combined."""

    operator: ClassVar[str]
    takes_followers: ClassVar[bool]
    """Whether the results stand side by side as they are, so that what follows can be one."""

    def key(self, call: Call, facts: Facts) -> Hashable | None:
        """Return what calls have in common that can be combined, None where one cannot be."""
        ...

    def axis(self, call: Call, facts: Facts) -> int:
        """Return the axis along which the results stand side by side."""
        ...

    def length(self, call: Call, facts: Facts) -> int:
        """Return how long a call's result is along the axis."""
        ...

    def combined(
        self, calls: Sequence[Call], data: Expr, weights: Sequence[Expr], facts: Facts
    ) -> Call:
        """Return the call that computes the results of all."""
        ...

    def part(self, whole: Expr, begin: int, length: int, axis: int, shape: tuple[int, ...]) -> Expr:
        """Return the part of the combined result that one branch gave, of that branch's shape."""
        ...


@final
@dataclass(frozen=True, slots=True)
class _Level:
    """What follows every branch: its calls, and which argument of each is the branch."""

    calls: tuple[Call, ...]
    place: int


@final
@dataclass(frozen=True, slots=True)
class _Group:
    """Branches that are combined, and the lengths of their results along the axis."""

    anchors: tuple[Call, ...]
    axis: int
    lengths: tuple[int, ...]
    levels: tuple[_Level, ...]

    @property
    def tops(self) -> tuple[Call, ...]:
        """The last call of each branch."""
        return self.levels[-1].calls if self.levels else self.anchors


def combined_branches(
    function: Function, types: Mapping[Expr, Type], anchor: Anchor, least: int
) -> Expr:
    """Return a function's body with every `least` or more branches combined."""
    facts = Facts(types)
    groups = list(_groups(function, facts, anchor, least))
    if not groups:
        return function.body
    part_of = {top: (group, place) for group in groups for place, top in enumerate(group.tops)}
    wholes: dict[int, Expr] = {}
    rebuilt_of: dict[Expr, Expr] = {}

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        rebuilt_of[original] = rebuilt
        if not isinstance(original, Call) or original not in part_of:
            return rebuilt
        group, place = part_of[original]
        whole = wholes.get(id(group))
        if whole is None:
            data = rebuilt_of[group.anchors[0].args[0]]
            whole = wholes[id(group)] = _whole(group, anchor, data, facts)
        begin = sum(group.lengths[:place])
        shape = shape_of(original, facts)
        part = anchor.part(whole, begin, group.lengths[place], group.axis, shape)
        rebuilt_of[original] = part
        return part

    return rewrite_pairs(function.body, rule)


def _groups(function: Function, facts: Facts, anchor: Anchor, least: int) -> Iterator[_Group]:
    body = function.body
    blocks = home_blocks(body)
    users = _users(body)
    alike: dict[Hashable, list[Call]] = {}
    for node in post_order(body):
        if not isinstance(node, Call) or operator_of(node) != anchor.operator:
            continue
        is_known = isinstance(node.args[1], Constant) or node.args[1] in function.params
        key = anchor.key(node, facts) if is_known else None
        if key is not None:
            alike.setdefault((key, node.args[0], blocks[node]), []).append(node)
    for calls in alike.values():
        if len(calls) >= least:
            yield _group(tuple(calls), facts, anchor, users, blocks)


def _users(body: Expr) -> Mapping[Expr, list[Expr]]:
    users: dict[Expr, list[Expr]] = {body: [body]}
    for node in post_order(body):
        for child in children(node):
            users.setdefault(child, []).append(node)
    return users


def _group(
    calls: tuple[Call, ...],
    facts: Facts,
    anchor: Anchor,
    users: Mapping[Expr, list[Expr]],
    blocks: Mapping[Expr, HomeBlock],
) -> _Group:
    axis = anchor.axis(calls[0], facts)
    lengths = tuple(anchor.length(call, facts) for call in calls)
    if not anchor.takes_followers:
        return _Group(calls, axis, lengths, ())
    levels: list[_Level] = []
    tops = calls
    while (level := _next_level(tops, axis, lengths, facts, users, blocks)) is not None:
        levels.append(level)
        tops = level.calls
    return _Group(calls, axis, lengths, tuple(levels))


def _next_level(
    tops: tuple[Call, ...],
    axis: int,
    lengths: tuple[int, ...],
    facts: Facts,
    users: Mapping[Expr, list[Expr]],
    blocks: Mapping[Expr, HomeBlock],
) -> _Level | None:
    """Return the calls that follow the branches alike, None where they do not."""
    found: list[Call] = []
    for top in tops:
        (user, *others) = users[top]
        if others or not isinstance(user, Call) or not isinstance(user.callee, OpRef):
            return None
        if user is top or blocks[user] is not blocks[top]:
            return None
        if facts.type_of(user) != facts.type_of(top) and not _only_dtype(user, top, facts):
            return None
        found.append(user)
    first = found[0]
    place = first.args.index(tops[0])
    level = _Level(tuple(found), place)
    is_alike = all(
        operator_of(call) == operator_of(first)
        and call.attrs == first.attrs
        and len(call.args) == len(first.args)
        and call.args.index(top) == place
        for call, top in zip(found, tops, strict=True)
    )
    if not is_alike or not _is_by_element(first):
        return None
    places = [index for index in range(len(first.args)) if index != place]
    values = [_joined_argument(level, index, axis, lengths, facts) for index in places]
    return None if any(each is None for each in values) else level


def _is_by_element(call: Call) -> bool:
    name = operator_of(call)
    is_unary = len(call.args) == 1 and OPERATORS[name].fusion is Fusion.ELEMENTWISE
    return is_unary or name in _BROADCASTING or name in _VECTORS


def _only_dtype(user: Call, top: Call, facts: Facts) -> bool:
    found, before = facts.tensor(user), facts.tensor(top)
    return found is not None and before is not None and found.shape == before.shape


def _joined_argument(
    level: _Level, index: int, axis: int, lengths: tuple[int, ...], facts: Facts
) -> Array | None:
    """Return an argument of the combined call, None where the branches' ones do not fit."""
    values: list[Array] = []
    for call in level.calls:
        arg = call.args[index]
        if not isinstance(arg, Constant):
            return None
        values.append(arg.value)
    first = level.calls[0]
    rank = len(shape_of(first, facts))
    if (vector_axis := _vector_axis(first, rank)) is not None:
        if vector_axis == axis:
            return np.concatenate(values)
        return values[0] if _are_same(values) else None
    aligned = [value.reshape((1,) * (rank - value.ndim) + value.shape) for value in values]
    if all(value.shape[axis] == 1 for value in aligned):
        return values[0] if _are_same(values) else None
    others = {value.shape[:axis] + value.shape[axis + 1 :] for value in aligned}
    if len(others) > 1:
        return None
    return np.concatenate(
        [np.broadcast_to(value, (*value.shape[:axis], length, *value.shape[axis + 1 :]))
         for value, length in zip(aligned, lengths, strict=True)],
        axis=axis,
    )  # fmt: skip


def _vector_axis(call: Call, rank: int) -> int | None:
    """Return the axis along which an operator's other arguments are vectors."""
    if operator_of(call) not in _VECTORS:
        return None
    return call.attrs.axis % rank if isinstance(call.attrs, BiasAddAttrs) else 1


def _are_same(values: Sequence[Array]) -> bool:
    first = values[0]
    return all(
        value.shape == first.shape and value.tobytes() == first.tobytes() for value in values
    )


def _whole(group: _Group, anchor: Anchor, data: Expr, facts: Facts) -> Expr:
    weights = [call.args[1] for call in group.anchors]
    whole: Expr = anchor.combined(group.anchors, data, weights, facts)
    for level in group.levels:
        first = level.calls[0]
        args: list[Expr] = []
        for index in range(len(first.args)):
            if index == level.place:
                args.append(whole)
                continue
            value = _joined_argument(level, index, group.axis, group.lengths, facts)
            assert value is not None, "seen when the level was found"
            args.append(Constant(value, first.span))
        whole = Call(first.callee, tuple(args), first.attrs, first.span)
    return whole


def operator_of(call: Call) -> str:
    """Return the operator that is called, "" where it is a function."""
    return call.callee.name if isinstance(call.callee, OpRef) else ""


def shape_of(expr: Expr, facts: Facts) -> tuple[int, ...]:
    """Return the shape of a tensor whose lengths are known."""
    shape = facts.shape(expr)
    assert shape is not None, "keys are given to calls of known shapes"
    return shape


def joined(weights: Sequence[Expr], axis: int) -> Expr:
    """Return weights side by side along an axis; a constant where all are."""
    values = [weight.value for weight in weights if isinstance(weight, Constant)]
    if len(values) == len(weights):
        return Constant(np.concatenate(values, axis=axis), weights[0].span)
    return Call(OpRef("concatenate"), (Tuple(tuple(weights)),), AxisAttrs(axis=axis))


def sliced(whole: Expr, begin: int, length: int, axis: int) -> Expr:
    """Return a part of a tensor along an axis."""
    attrs = StridedSliceAttrs(begin=(begin,), end=(begin + length,), strides=(1,), axes=(axis,))
    return Call(OpRef("strided_slice", whole.span), (whole,), attrs, whole.span)
