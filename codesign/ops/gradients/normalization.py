"""Gradients of normalizations.

The statistics of nn.batch_norm are given and arguments like the others; those of the others follow
from the data. With h the normalized data, r the root that divides it and g what flows back to h:

    dx = r * (g - mean(g) - h * mean(g * h))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codesign.ir.relay.expr import Expr
from codesign.ir.relay.types import Type
from codesign.ops.gradients.expressions import (
    add,
    along_axis,
    multiply,
    negative,
    number,
    op,
    reshape,
    static,
    subtract,
    tensor,
    total,
)
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
from codesign.ops.operator import Forward, Gradient, NotDifferentiable
from codesign.ops.reduce import ReduceAttrs


def _batch_norm(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """With r = rsqrt(variance + epsilon): result = (data - mean) * r * gamma + beta."""
    attrs = call.attrs
    assert isinstance(attrs, BatchNormAttrs), "the attributes of nn.batch_norm"
    data, gamma, _, mean, variance = call.args
    type_ = call.result_type
    rank = len(tensor(type_).shape)
    others = [axis for axis in range(rank) if axis != 1]
    root = op("rsqrt", add(variance, number(attrs.epsilon, type_)))
    factor = multiply(gamma, root)
    apart = subtract(data, along_axis(mean, 1, rank))
    beta_adjoint = total(adjoint, others)
    gamma_adjoint = multiply(total(multiply(adjoint, apart), others), root)
    slope = multiply(multiply(root, root), number(-0.5, type_))
    return (
        multiply(adjoint, along_axis(factor, 1, rank)),
        gamma_adjoint,
        beta_adjoint,
        negative(multiply(beta_adjoint, factor)),
        multiply(multiply(gamma_adjoint, gamma), slope),
    )


def _layer_norm(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, LayerNormAttrs), "the attributes of nn.layer_norm"
    axes = layer_axes(attrs, len(tensor(call.result_type).shape))
    return _by_own_statistics(call, adjoint, attrs.axis, attrs.epsilon, axes)


def _instance_norm(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, InstanceNormAttrs), "the attributes of nn.instance_norm"
    axes = instance_axes(attrs, len(tensor(call.result_type).shape))
    return _by_own_statistics(call, adjoint, attrs.axis, attrs.epsilon, axes)


def _group_norm(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, GroupNormAttrs), "the attributes of nn.group_norm"
    shape = static("nn.group_norm", call.result_type)
    axes, apart = grouped_axes(attrs, len(shape)), grouped_shape(attrs, shape)
    return _by_own_statistics(call, adjoint, attrs.axis, attrs.epsilon, axes, apart)


def _by_own_statistics(
    call: Forward,
    adjoint: Expr,
    axis: int,
    epsilon: float,
    axes: tuple[int, ...],
    apart: tuple[int, ...] | None = None,
) -> tuple[Expr | None, ...]:
    """Return the adjoints where statistics are over `axes` of the data in the shape `apart`."""
    data, gamma, _ = call.args
    shape = static("a normalization", call.result_type)
    rank, seen = len(shape), apart or shape
    normal, root = _normalized(reshape(data, seen), axes, epsilon, call.result_type)
    flowing = reshape(multiply(adjoint, along_axis(gamma, axis, rank)), seen)
    mixed = multiply(normal, _mean(multiply(flowing, normal), axes))
    to_data = multiply(root, subtract(subtract(flowing, _mean(flowing, axes)), mixed))
    others = [each for each in range(rank) if each != axis % rank]
    to_gamma = total(multiply(adjoint, reshape(normal, shape)), others)
    return reshape(to_data, shape), to_gamma, total(adjoint, others)


def _normalized(
    data: Expr, axes: tuple[int, ...], epsilon: float, type_: Type
) -> tuple[Expr, Expr]:
    apart = subtract(data, _mean(data, axes))
    root = op("rsqrt", add(_mean(multiply(apart, apart), axes), number(epsilon, type_)))
    return multiply(apart, root), root


def _mean(value: Expr, axes: tuple[int, ...]) -> Expr:
    """Return the mean over axes, which stay with length 1; over none, the value itself."""
    return op("mean", value, attrs=ReduceAttrs(axis=axes, keepdims=True)) if axes else value


def _l2_normalize(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Where the sum of squares is the greater one, y = x * r: dx = r * (g - y * sum(g * y))."""
    attrs = call.attrs
    assert isinstance(attrs, L2NormalizeAttrs), "the attributes of nn.l2_normalize"
    (data,), type_ = call.args, call.result_type
    over = ReduceAttrs(axis=attrs.axis, keepdims=True)
    squares = op("sum", multiply(data, data), attrs=over)
    least = number(attrs.epsilon, type_)
    root = op("rsqrt", op("maximum", squares, least))
    along = op("sum", multiply(adjoint, call.result), attrs=over)
    is_long = op("greater_equal", squares, least)
    bent = op("where", is_long, multiply(call.result, along), number(0, type_))
    return (multiply(root, subtract(adjoint, bent)),)


def _dropout(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    return (adjoint,)


GRADIENTS: Final[Mapping[str, Gradient | NotDifferentiable]] = {
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _layer_norm,
    "nn.instance_norm": _instance_norm,
    "nn.group_norm": _group_norm,
    "nn.l2_normalize": _l2_normalize,
    "nn.dropout": _dropout,
}
"""The rule of every operator of this kind."""
