"""Scales by channel that go into weights through what lies between them.

A scale asks back from the product to its producers, and forward to its readers. Each either takes
it into its weight, or hands it on, or refuses: then all of it stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, final

import numpy as np

from codesign.compiler.rewriting.scale_axis.anchors import (
    channel_axis,
    is_anchor,
    rank_of,
    scaled_inputs,
    scaled_outputs,
    shape_of,
)
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ir.relay.visit import children, post_order, rewrite_pairs
from codesign.ops.nn.bias_add import BiasAddAttrs

_REACH: Final = 64
"""How many nodes a scale passes at most."""

_ORDERED: Final = frozenset(
    {"nn.relu", "nn.leaky_relu", "nn.prelu", "nn.max_pool2d", "nn.global_max_pool2d"}
)
"""Operators that a positive scale passes."""

_LINEAR: Final = frozenset({"nn.avg_pool2d", "nn.global_avg_pool2d"})
"""Operators that any scale passes."""

_POOLS: Final = _LINEAR | {"nn.max_pool2d", "nn.global_max_pool2d", "nn.prelu"}
"""Operators whose channels are axis 1."""


@final
@dataclass(frozen=True, slots=True)
class _Scale:
    """One factor for each channel, in float64, and the axis of channels."""

    values: Array
    axis: int

    @property
    def is_positive(self) -> bool:
        return bool(np.all(self.values > 0))

    def across(self, rank: int) -> Array:
        return self.values.reshape([-1 if each == self.axis else 1 for each in range(rank)])


@final
@dataclass(slots=True)
class _Edits:
    """What changes: products that go, weights by output and input, and constant operands."""

    dropped: dict[Expr, int] = field(default_factory=dict)
    outputs: dict[Expr, Array] = field(default_factory=dict)
    inputs: dict[Expr, Array] = field(default_factory=dict)
    operands: dict[tuple[Expr, int], Array] = field(default_factory=dict)

    def add(self, other: _Edits) -> None:
        self.dropped |= other.dropped
        for mine, theirs in ((self.outputs, other.outputs), (self.inputs, other.inputs)):
            for node, scale in theirs.items():
                mine[node] = mine.get(node, 1.0) * scale
        for key, scale in other.operands.items():
            self.operands[key] = self.operands.get(key, 1.0) * scale


def moved_scales(body: Expr, types: Mapping[Expr, Type]) -> Expr:
    """Return the body with every scale that its surroundings take in their weights."""
    mover = _Mover(body, types)
    edits = mover.edits()
    if not edits.dropped:
        return body
    return rewrite_pairs(body, lambda old, new: _edited(old, new, edits))


@final
class _Mover:
    def __init__(self, body: Expr, types: Mapping[Expr, Type]) -> None:
        self.types = types
        self.order = tuple(post_order(body))
        self.readers: dict[Expr, list[Expr]] = {node: [] for node in self.order}
        self.readers[body].append(body)
        for node in self.order:
            for child in children(node):
                self.readers[child].append(node)

    def edits(self) -> _Edits:
        found = _Edits()
        for node in self.order:
            scaled = self._scaled(node)
            if scaled is None:
                continue
            place, scale = scaled
            assert isinstance(node, Call), "a product is a call"
            for edits in (self._back(node.args[place], scale), self._forward(node, scale)):
                if edits is not None and _stay_finite(edits):
                    edits.dropped[node] = place
                    found.add(edits)
                    break
        return found

    def _scaled(self, node: Expr) -> tuple[int, _Scale] | None:
        """Return which operand a product scales by channel, and how; None if it does not."""
        match node:
            case Call(OpRef("multiply"), (_, Constant(value))):
                place = 0
            case Call(OpRef("multiply"), (Constant(value), _)):
                place = 1
            case Call(OpRef("divide"), (_, Constant(value))) if np.all(value != 0):
                place = 0
            case _:
                return None
        data = node.args[place]
        if isinstance(data, Constant) or not self._is_float(node) or not self._is_same(data, node):
            return None
        shape = shape_of(self.types[node])
        for axis in dict.fromkeys((1, len(shape) - 1)):
            vector = _vector(value, axis, shape)
            if vector is not None and np.all(np.isfinite(vector)) and np.all(vector != 0):
                is_quotient = isinstance(node.callee, OpRef) and node.callee.name == "divide"
                return place, _Scale(1 / vector if is_quotient else vector, axis)
        return None

    def _is_float(self, node: Expr) -> bool:
        type_ = self.types.get(node)
        is_known = isinstance(type_, TensorType) and UNKNOWN not in type_.shape
        return is_known and isinstance(type_, TensorType) and type_.dtype.is_float

    def _is_same(self, one: Expr, other: Expr) -> bool:
        return self.types.get(one) == self.types.get(other)

    def _back(self, source: Expr, scale: _Scale) -> _Edits | None:
        """Return what producers of a tensor change so that it is scaled, None if one refuses."""
        edits = _Edits()
        pending = [source]
        for _ in range(_REACH):
            if not pending:
                return edits
            node = pending.pop()
            if len(self.readers[node]) != 1 or not isinstance(node, Call):
                return None
            handed = self._producer(node, scale, edits)
            if handed is None:
                return None
            pending += handed
        return None

    def _producer(self, node: Call, scale: _Scale, edits: _Edits) -> list[Expr] | None:
        """Return the operands that a producer hands the scale on to; None if it refuses."""
        if is_anchor(node):
            if channel_axis(node, self.types) != scale.axis:
                return None
            edits.outputs[node] = scale.values
            return []
        match node:
            case Call(OpRef(name), (data, *_)) if self._passes(name, scale):
                return [data]
            case Call(OpRef("nn.bias_add"), (data, Constant()), BiasAddAttrs(axis=axis)):
                if axis % rank_of(self.types[node]) != scale.axis:
                    return None
                edits.operands[node, 1] = scale.values
                return [data]
            case Call(OpRef("add" | "subtract"), (left, right)):
                return self._sides(node, (left, right), scale, edits)
            case Call(OpRef("multiply" | "divide"), (data, Constant())):
                return [data] if self._is_same(data, node) else None
            case Call(OpRef("multiply"), (Constant(), data)):
                return [data] if self._is_same(data, node) else None
            case _:
                return None

    def _sides(
        self, node: Call, sides: tuple[Expr, Expr], scale: _Scale, edits: _Edits
    ) -> list[Expr] | None:
        handed: list[Expr] = []
        rank = rank_of(self.types[node])
        for place, side in enumerate(sides):
            if isinstance(side, Constant):
                edits.operands[node, place] = scale.across(rank)
            elif self._is_same(side, node):
                handed.append(side)
            else:
                return None
        return handed

    def _passes(self, name: str, scale: _Scale) -> bool:
        is_along = name not in _POOLS or scale.axis == 1
        return is_along and (name in _LINEAR or (name in _ORDERED and scale.is_positive))

    def _forward(self, product: Expr, scale: _Scale) -> _Edits | None:
        """Return what readers of a product change so that it may go, None if one refuses."""
        edits = _Edits()
        pending: list[Expr] = [product]
        for _ in range(_REACH):
            if not pending:
                return edits
            node = pending.pop()
            for reader in self.readers[node]:
                handed = self._reader(reader, node, scale, edits)
                if handed is None:
                    return None
                pending += handed
        return None

    def _reader(self, reader: Expr, node: Expr, scale: _Scale, edits: _Edits) -> list[Expr] | None:
        """Return what a reader hands the scale on as; None if it refuses."""
        match reader:
            case Call(_, (data, _)) if data is node and is_anchor(reader):
                rank = rank_of(self.types[node])
                is_dense = channel_axis(reader, self.types) != 1 or rank == 2
                if scale.axis != (rank - 1 if is_dense else 1):
                    return None
                edits.inputs[reader] = scale.values
                return []
            case Call(OpRef(name), (data, *others)) if data is node and node not in others:
                return [reader] if self._passes(name, scale) else None
            case _:
                return None


def _vector(value: Array, axis: int, shape: tuple[int, ...]) -> Array | None:
    """Return a constant that broadcasts to a shape as a vector along an axis."""
    if value.ndim > len(shape) or not -len(shape) <= axis < len(shape):
        return None
    aligned = (1,) * (len(shape) - value.ndim) + value.shape
    if any(dim != 1 for place, dim in enumerate(aligned) if place != axis):
        return None
    wide = value.astype(np.float64).reshape(-1)
    return np.broadcast_to(wide, (shape[axis],)).copy()


def _stay_finite(edits: _Edits) -> bool:
    """Return whether no weight and no operand leaves its type."""
    return all(np.all(np.isfinite(value)) for _, value in _values(edits))


def _values(edits: _Edits) -> Iterator[tuple[Expr, Array]]:
    for node in dict.fromkeys((*edits.outputs, *edits.inputs)):
        assert isinstance(node, Call), "an anchor is a call"
        yield node, _weight(node, edits)
    for node, place in edits.operands:
        assert isinstance(node, Call), "operands are of calls"
        yield node, _operand(node, place, edits)


def _weight(anchor: Call, edits: _Edits) -> Array:
    weight = anchor.args[1]
    assert isinstance(weight, Constant), "an anchor's weight is a constant"
    values = weight.value.astype(np.float64)
    if anchor in edits.inputs:
        scale = edits.inputs[anchor]
        values, _ = scaled_inputs(anchor, values, scale, np.zeros_like(scale))
    if anchor in edits.outputs:
        values = scaled_outputs(anchor, values, edits.outputs[anchor])
    with np.errstate(over="ignore"):
        return values.astype(weight.value.dtype)


def _operand(node: Call, place: int, edits: _Edits) -> Array:
    operand = node.args[place]
    assert isinstance(operand, Constant), "only constants are scaled"
    with np.errstate(over="ignore"):
        return np.asarray(operand.value * edits.operands[node, place]).astype(operand.value.dtype)


def _edited(old: Expr, new: Expr, edits: _Edits) -> Expr:
    if not isinstance(old, Call) or not isinstance(new, Call):
        return new
    if old in edits.dropped:
        return new.args[edits.dropped[old]]
    args = list(new.args)
    if old in edits.outputs or old in edits.inputs:
        args[1] = Constant(_weight(old, edits), old.args[1].span)
    for place in (0, 1):
        if (old, place) in edits.operands:
            args[place] = Constant(_operand(old, place, edits), old.args[place].span)
    return new if tuple(args) == new.args else replace(new, args=tuple(args))
