"""Gradients of reductions, of sums that collapse a shape, and of softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from codesign.ir.relay.expr import Constant, Expr
from codesign.ops.axis import AxisAttrs
from codesign.ops.gradients.expressions import (
    broadcast_to,
    divide,
    elements_along,
    expand_dims,
    is_static,
    kept_axes,
    multiply,
    negative,
    number,
    op,
    reshape,
    spread,
    static,
    subtract,
    tensor,
    total,
    transpose,
    where,
)
from codesign.ops.operator import Forward, Gradient, NotDifferentiable
from codesign.ops.reduce import ReduceAttrs


def _axes(call: Forward) -> tuple[tuple[int, ...], bool]:
    attrs = call.attrs
    assert isinstance(attrs, ReduceAttrs), "the attributes of a reduction"
    return kept_axes(attrs.axis, len(tensor(call.types[0]).shape)), attrs.keepdims


def _spread(call: Forward, value: Expr) -> Expr:
    """Return something of the result's shape in that of the argument."""
    axes, is_kept = _axes(call)
    return spread(value, call.types[0], call.args[0], axes, is_kept=is_kept)


def _sum(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    return (_spread(call, adjoint),)


def _mean(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    (data,) = call.args
    axes, is_kept = _axes(call)
    count: Expr = total(op("ones_like", data), axes, keepdims=is_kept)
    if is_static(call.types[0]):
        shape = tensor(call.types[0]).static_shape
        count = number(elements_along(shape, axes), call.result_type)
    return (_spread(call, divide(adjoint, count)),)


def _extreme(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Elements that are equal to the greatest (or least) one share what flows back."""
    (data,) = call.args
    axes, is_kept = _axes(call)
    is_best = op("equal", data, _spread(call, call.result))
    shares = where(is_best, op("ones_like", data), op("zeros_like", data))
    count = total(shares, axes, keepdims=is_kept)
    return (multiply(shares, _spread(call, divide(adjoint, count))),)


def _prod(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Multiply, for each element, all the others: right also where elements are zero."""
    axes, is_kept = _axes(call)
    shape = static("prod", call.types[0])
    others = [axis for axis in range(len(shape)) if axis not in axes]
    length = elements_along(shape, axes)
    rows = [shape[axis] for axis in others]
    order = (*others, *axes)
    flat = reshape(transpose(call.args[0], order), (*rows, length))
    pairs = expand_dims(flat, len(rows))
    is_self = Constant(np.eye(length, dtype=bool))
    kept = where(is_self, number(1, call.result_type), pairs)
    products = op("prod", kept, attrs=ReduceAttrs(axis=(-1,)))
    back = tuple(int(axis) for axis in np.argsort(order))
    slopes = transpose(reshape(products, [shape[axis] for axis in order]), back)
    return (multiply(slopes, spread(adjoint, call.types[0], call.args[0], axes, is_kept=is_kept)),)


def _collapse(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    data = call.types[0]
    rest = (None,) * (len(call.args) - 1)
    if is_static(data):
        return (broadcast_to(adjoint, tensor(data).static_shape), *rest)
    return (op("broadcast_to_like", adjoint, call.args[0]), *rest)


def _axis(call: Forward) -> tuple[int]:
    attrs = call.attrs
    assert isinstance(attrs, AxisAttrs), "the attributes of softmax"
    return (attrs.axis % len(tensor(call.result_type).shape),)


def _softmax(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    mean = total(multiply(adjoint, call.result), _axis(call), keepdims=True)
    return (multiply(call.result, subtract(adjoint, mean)),)


def _log_softmax(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    whole = total(adjoint, _axis(call), keepdims=True)
    return (subtract(adjoint, multiply(op("exp", call.result), whole)),)


def _rows(call: Forward) -> Expr:
    """Return the number of rows of the first argument, which may be known at run time only."""
    rows = tensor(call.types[0]).shape[0]
    if isinstance(rows, int):
        return number(rows, call.result_type)
    ones = total(op("ones_like", call.args[0]), (0,))
    return op("max", ones, attrs=ReduceAttrs())


def _cross_entropy(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Loss = -mean over rows of sum(log(predictions) * targets)."""
    predictions, targets = call.args
    share = divide(negative(adjoint), _rows(call))
    to_predictions = multiply(share, divide(targets, predictions))
    return to_predictions, multiply(share, op("log", predictions))


def _cross_entropy_with_logits(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Loss = -mean over rows of sum(logarithms * targets)."""
    logarithms, targets = call.args
    share = divide(negative(adjoint), _rows(call))
    return multiply(share, targets), multiply(share, logarithms)


GRADIENTS: Final[Mapping[str, Gradient | NotDifferentiable]] = {
    "sum": _sum,
    "mean": _mean,
    "max": _extreme,
    "min": _extreme,
    "prod": _prod,
    "argmax": NotDifferentiable("its result is a place, an integer"),
    "collapse_sum_to": _collapse,
    "collapse_sum_like": _collapse,
    "nn.softmax": _softmax,
    "nn.fast_softmax": _softmax,
    "nn.log_softmax": _log_softmax,
    "nn.cross_entropy": _cross_entropy,
    "nn.cross_entropy_with_logits": _cross_entropy_with_logits,
}
"""The rule of every operator of this kind."""
