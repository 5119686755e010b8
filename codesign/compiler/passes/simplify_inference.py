"""simplify-inference: write normalizations as arithmetic, and drop what only training does.

    nn.batch_norm(%x, gamma, beta, mean, variance, epsilon=e)
becomes
    add(multiply(%x, scale), shift)
where scale = gamma / sqrt(variance + e) and shift = beta - mean * scale, both per channel, of
constant statistics. And, with statistics of the data over some axes,

    nn.layer_norm, nn.instance_norm, nn.group_norm
            (x - mean(x)) * rsqrt(mean((x - mean(x)) * (x - mean(x))) + e) * gamma + beta
    nn.l2_normalize    x * rsqrt(maximum(sum(x * x), e))
    nn.dropout         x

Law: values stay as `docs/numbers.md` promises of functions and sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.diagnostics import Span
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ir.relay.visit import rewrite_pairs
from codesign.ops.nn.batch_norm import BatchNormAttrs
from codesign.ops.nn.normalization import (
    GroupNormAttrs,
    InstanceNormAttrs,
    L2NormalizeAttrs,
    LayerNormAttrs,
    grouped_axes,
    grouped_shape,
    instance_axes,
    layer_axes,
)
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.reshape import ReshapeAttrs


@final
@dataclass(frozen=True, slots=True)
class SimplifyInference:
    """Replace normalizations by products, sums and means; leave out nn.dropout."""

    name: ClassVar[str] = "simplify-inference"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.INFERENCE})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module without such calls."""
        types = infer_types(module)
        return map_bodies(
            module, lambda body: rewrite_pairs(body, lambda old, new: _rule(old, new, types))
        )


def _rule(original: Expr, rebuilt: Expr, types: Mapping[Expr, Type]) -> Expr:
    match rebuilt:
        case Call(OpRef("nn.dropout"), (data,)):
            return data
        case Call(
            OpRef("nn.batch_norm"),
            (data, Constant(gamma), Constant(beta), Constant(mean), Constant(variance)),
            BatchNormAttrs(epsilon=epsilon),
            span,
        ):
            type_ = _tensor(types[original])
            factor = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
            offset = beta.astype(np.float64) - mean.astype(np.float64) * factor
            shape = (-1,) + (1,) * (len(type_.shape) - 2)
            scale, shift = (
                Constant(each.astype(type_.dtype.numpy).reshape(shape), span)
                for each in (factor, offset)
            )
            return _op("add", _op("multiply", data, scale, span=span), shift, span=span)
        case Call(OpRef(), (data, gamma, beta), attrs, span) if isinstance(
            attrs, LayerNormAttrs | InstanceNormAttrs | GroupNormAttrs
        ):
            type_ = _tensor(types[original])
            if isinstance(attrs, GroupNormAttrs) and not _can_group(type_, attrs):
                return rebuilt
            normal = _normalized(data, attrs, type_, span)
            along = _along(attrs.axis, len(type_.shape))
            gammas = _op("reshape", gamma, attrs=along, span=span)
            betas = _op("reshape", beta, attrs=along, span=span)
            return _op("add", _op("multiply", normal, gammas, span=span), betas, span=span)
        case Call(OpRef(), (data,), L2NormalizeAttrs(epsilon=epsilon, axis=axis), span):
            square = _op("multiply", data, data, span=span)
            over = ReduceAttrs(axis=axis, keepdims=True)
            total = _op("sum", square, attrs=over, span=span)
            least = _number(epsilon, _tensor(types[original]), span)
            root = _op("rsqrt", _op("maximum", total, least, span=span), span=span)
            return _op("multiply", data, root, span=span)
        case _:
            return rebuilt


def _normalized(
    data: Expr,
    attrs: LayerNormAttrs | InstanceNormAttrs | GroupNormAttrs,
    type_: TensorType,
    span: Span | None,
) -> Expr:
    rank = len(type_.shape)
    match attrs:
        case LayerNormAttrs():
            return _centred(data, layer_axes(attrs, rank), attrs.epsilon, type_, span)
        case InstanceNormAttrs():
            return _centred(data, instance_axes(attrs, rank), attrs.epsilon, type_, span)
        case GroupNormAttrs():
            shape = tuple(-1 if dim is UNKNOWN else dim for dim in type_.shape)
            apart = ReshapeAttrs(shape=grouped_shape(attrs, shape))
            grouped = _op("reshape", data, attrs=apart, span=span)
            normal = _centred(grouped, grouped_axes(attrs, rank), attrs.epsilon, type_, span)
            return _op("reshape", normal, attrs=ReshapeAttrs(shape=shape), span=span)


def _can_group(type_: TensorType, attrs: GroupNormAttrs) -> bool:
    """Return whether a reshape can part the groups: it finds one unknown length, not two."""
    channels = type_.shape[attrs.axis % len(type_.shape)]
    return channels is not UNKNOWN and type_.shape.count(UNKNOWN) <= 1


def _centred(
    data: Expr, axes: tuple[int, ...], epsilon: float, type_: TensorType, span: Span | None
) -> Expr:
    """Return the data less its mean, by the root of its variance, over some axes."""
    if not axes:  # the mean of one element is the element
        apart = _op("subtract", data, data, span=span)
        return _op("divide", apart, _number(epsilon**0.5, type_, span), span=span)
    over = ReduceAttrs(axis=axes, keepdims=True)
    apart = _op("subtract", data, _op("mean", data, attrs=over, span=span), span=span)
    square = _op("multiply", apart, apart, span=span)
    variance = _op("mean", square, attrs=over, span=span)
    widened = _op("add", variance, _number(epsilon, type_, span), span=span)
    return _op("multiply", apart, _op("rsqrt", widened, span=span), span=span)


def _along(axis: int, rank: int) -> ReshapeAttrs:
    return ReshapeAttrs(shape=tuple(-1 if each == axis % rank else 1 for each in range(rank)))


def _op(name: str, *args: Expr, attrs: Attrs | None = None, span: Span | None) -> Call:
    return Call(OpRef(name, span), args, attrs, span)


def _number(value: float, type_: TensorType, span: Span | None) -> Constant:
    return Constant(np.asarray(value, type_.dtype.numpy), span)


def _tensor(type_: Type) -> TensorType:
    assert isinstance(type_, TensorType), "normalizations give tensors"
    return type_
