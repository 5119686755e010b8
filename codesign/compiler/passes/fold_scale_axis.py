"""fold-scale-axis: let weights and biases absorb what is done to each channel around them.

    add(multiply(nn.conv2d(%x, w), scale), shift)
becomes
    nn.bias_add(nn.conv2d(%x, w * scale), shift)
where scale and shift are constants with one value for each channel (or one for all). Backwards from
the result of a convolution or matrix product everything is absorbed; forwards from its data only
what zero padding allows: products always, sums where there is no padding.

Scales reach weights through what is between, too:

    multiply(nn.relu(nn.bias_add(nn.conv2d(%x, w), b)), scale)      of positive scales
becomes
    nn.relu(nn.bias_add(nn.conv2d(%x, w * scale), b * scale))
Back they go through sums where both sides take them, and through averages; through nn.relu,
nn.leaky_relu, nn.prelu and greatest pools where they are positive. Forward they go through averages
and, where they are positive, nn.relu and its like and greatest pools, if every reader takes them.

Law: values stay but for the rounding of weights, which is once.

Source: TVM's FoldScaleAxis, both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.compiler.rewriting.scale_axis.anchors import (
    ANCHORS,
    anchor_name,
    channel_axis,
    channels_of,
    is_known,
    scaled_inputs,
    scaled_outputs,
    shape_of,
)
from codesign.compiler.rewriting.scale_axis.moved import moved_scales
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import post_order, rewrite_pairs, use_counts
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs


@final
@dataclass(frozen=True, slots=True)
class FoldScaleAxis:
    """Absorb products and sums by channel into constant weights and biases."""

    name: ClassVar[str] = "fold-scale-axis"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.INFERENCE})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with weights that absorbed their surroundings."""
        types = infer_types(module)
        moved = map_bodies(module, lambda body: moved_scales(body, types))
        if moved is not module:
            types = infer_types(moved)
        return map_bodies(moved, lambda body: _fold(body, types))


@final
@dataclass(frozen=True, slots=True)
class _Affine:
    """x -> scale * x + shift for each channel; scale and shift are vectors in float64."""

    scale: Array
    shift: Array
    has_shift: bool = False

    @classmethod
    def identity(cls, channels: int) -> _Affine:
        return cls(np.ones(channels), np.zeros(channels))

    def then(self, other: _Affine) -> _Affine:
        """Return the map that applies this one first."""
        return _Affine(
            self.scale * other.scale,
            self.shift * other.scale + other.shift,
            self.has_shift or other.has_shift,
        )


@final
@dataclass(frozen=True, slots=True)
class _Layer:
    """An anchor with all that it absorbs: `after` follows it, `before` precedes it from `data`."""

    anchor: Call
    after: _Affine
    before: _Affine | None = None
    data: Expr | None = None


def _fold(body: Expr, types: Mapping[Expr, Type]) -> Expr:
    uses = use_counts(body)
    layers = dict(_layers(body, types, uses))
    taken = {layer.anchor for layer in layers.values()}
    for top, layer in tuple(layers.items()):
        layers[top] = _with_data(layer, types, uses, frozenset(layers))
    changed = {top: layer for top, layer in layers.items() if not _is_plain(top, layer)}
    if not changed:
        return body
    assert len(taken) == len(layers), "an anchor belongs to one layer"
    rebuilt_of: dict[Expr, Expr] = {}

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        rebuilt_of[original] = rebuilt
        layer = changed.get(original)
        if layer is None:
            return rebuilt
        rebuilt_of[original] = new = _absorbed(layer, rebuilt_of, types)
        return new

    return rewrite_pairs(body, rule)


def _is_plain(top: Expr, layer: _Layer) -> bool:
    """Whether a layer is an anchor alone, or an anchor and its bias: nothing is to be done."""
    if layer.data is not None:
        return False
    match top:
        case Call(OpRef("nn.bias_add"), (source, _)):
            return source is layer.anchor
        case _:
            return top is layer.anchor


def _layers(
    body: Expr, types: Mapping[Expr, Type], uses: Mapping[Expr, int]
) -> Iterator[tuple[Expr, _Layer]]:
    """Yield each anchor's layer under its last absorbed call."""
    open_layers: dict[Expr, _Layer] = {}
    for node in post_order(body):
        match node:
            case Call(OpRef(name), (_, Constant(weight))) if name in ANCHORS:
                if weight.dtype.kind == "f" and is_known(types[node]):
                    channels = channels_of(node, types)
                    open_layers[node] = _Layer(node, _Affine.identity(channels))
            case Call():
                for index, source in enumerate(node.args[:2]):
                    layer = open_layers.get(source)
                    if layer is None or uses[source] > 1 or types[source] != types[node]:
                        continue
                    axis = channel_axis(layer.anchor, types)
                    step = _step(node, index, axis, types)
                    if step is not None:
                        del open_layers[source]
                        open_layers[node] = replace(layer, after=layer.after.then(step))
                        break
            case _:
                pass
    yield from open_layers.items()


def _with_data(
    layer: _Layer, types: Mapping[Expr, Type], uses: Mapping[Expr, int], tops: frozenset[Expr]
) -> _Layer:
    """Return the layer with what it absorbs from its data; what another layer ends with is its."""
    data = layer.anchor.args[0]
    axis = 1 if anchor_name(layer.anchor) != "nn.dense" else len(shape_of(types[data])) - 1
    before = _Affine.identity(shape_of(types[data])[axis])
    found: Expr | None = None
    while isinstance(data, Call) and uses[data] == 1 and data not in tops:
        index = next((i for i, arg in enumerate(data.args[:2]) if not _is_constant(arg)), 0)
        step = _step(data, index, axis, types)
        if step is None or types[data.args[index]] != types[data]:
            break
        grown = step.then(before)
        if grown.has_shift and _pads(layer.anchor):
            break
        before, data = grown, data.args[index]
        found = data
    return layer if found is None else replace(layer, before=before, data=found)


def _pads(anchor: Call) -> bool:
    """Whether a constant added to the data would be missing at the border."""
    match anchor.attrs:
        case Conv2DAttrs(padding=padding):
            return any(padding)
        case Conv2DTransposeAttrs():
            return True
        case _:
            return False


def _step(node: Call, index: int, axis: int, types: Mapping[Expr, Type]) -> _Affine | None:
    """Return what a call does to each channel of its argument `index`, None where it is more."""
    if not isinstance(node.callee, OpRef):
        return None
    shape = shape_of(types[node])
    if node.callee.name == "nn.bias_add":
        wanted = isinstance(node.attrs, BiasAddAttrs) and node.attrs.axis % len(shape) == axis
        if index != 0 or not wanted or not _is_constant(node.args[1]):
            return None
        return _Affine(
            np.ones(shape[axis]), _per_channel(node.args[1], (-1,), 0, shape[axis]), True
        )
    if len(node.args) != 2 or not _is_constant(node.args[1 - index]):
        return None
    value = _vector(node.args[1 - index], axis, shape)
    if value is None:
        return None
    one, zero = np.ones(shape[axis]), np.zeros(shape[axis])
    match node.callee.name, index:
        case "multiply", _:
            return _Affine(value, zero)
        case "divide", 0 if np.all(value != 0):
            return _Affine(1 / value, zero)
        case "add", _:
            return _Affine(one, value, True)
        case "subtract", 0:
            return _Affine(one, -value, True)
        case "subtract", 1:
            return _Affine(-one, value, True)
        case _:
            return None


def _is_constant(expr: Expr) -> bool:
    return isinstance(expr, Constant) and expr.value.dtype.kind == "f"


def _per_channel(expr: Expr, shape: tuple[int, ...], axis: int, channels: int) -> Array:
    assert isinstance(expr, Constant), "only constants are absorbed"
    return np.broadcast_to(expr.value.astype(np.float64).reshape(shape), (channels,)).copy()


def _vector(expr: Expr, axis: int, shape: tuple[int, ...]) -> Array | None:
    """Return a constant that broadcasts to `shape` as a vector of channels, None if it is more."""
    assert isinstance(expr, Constant), "only constants are absorbed"
    value = expr.value
    if value.ndim > len(shape):
        return None
    aligned = (1,) * (len(shape) - value.ndim) + value.shape
    if any(dim != 1 for position, dim in enumerate(aligned) if position != axis):
        return None
    return _per_channel(expr, (-1,), 0, shape[axis])


def _absorbed(layer: _Layer, rebuilt_of: Mapping[Expr, Expr], types: Mapping[Expr, Type]) -> Expr:
    anchor, after = layer.anchor, layer.after
    weight = anchor.args[1]
    assert isinstance(weight, Constant), "an anchor's weight is a constant"
    values = weight.value.astype(np.float64)
    data = rebuilt_of[anchor.args[0] if layer.data is None else layer.data]
    if layer.before is not None:
        values, moved = scaled_inputs(anchor, values, layer.before.scale, layer.before.shift)
        after = replace(
            after,
            shift=after.shift + moved * after.scale,
            has_shift=after.has_shift or layer.before.has_shift,
        )
    values = scaled_outputs(anchor, values, after.scale)
    dtype, span = weight.value.dtype, anchor.span
    new = replace(anchor, args=(data, Constant(values.astype(dtype), weight.span)))
    if not after.has_shift:
        return new
    attrs = BiasAddAttrs(axis=channel_axis(anchor, types))
    bias = Constant(after.shift.astype(dtype), span)
    return Call(OpRef("nn.bias_add", span), (new, bias), attrs, span)
