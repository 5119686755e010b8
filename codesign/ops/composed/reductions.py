"""all, any, argmin and variance: reductions that others say.

    all(%x, axis=[1])   any(%x)            of truths; all of none is true, any of none is false
    argmin(%x, axis=0)                     the place of the least element, a NaN before all
    variance(%x, %mean, axis=[1])          the mean of (x - mean)^2; `unbiased` divides by n - 1

`%mean` has the reduced axes with length 1, or is what broadcasts to the data in another way.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ops.composed.pieces import attrs_of, composed
from codesign.ops.gradients.expressions import (
    cast,
    divide,
    multiply,
    number,
    op,
    subtract,
    tensor,
)
from codesign.ops.numeric import ieee
from codesign.ops.reduce import (
    ArgReduceAttrs,
    ReduceAttrs,
    arg_relation,
    normal_axes,
    reduced_shape,
    reducing,
    require_elements,
)
from codesign.ops.relations import (
    FLOATS,
    attributes,
    broadcast,
    mistake,
    per_input_element,
    require_dtype,
    require_same_dtype,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class VarianceAttrs(Attrs):
    """The axes that are reduced (none: all), whether they stay, and whether n - 1 divides."""

    axis: tuple[int, ...] = ()
    keepdims: bool = False
    unbiased: bool = False


_TRUTHS: Final = frozenset({DType.BOOL})


def _all(data: Array, attrs: ReduceAttrs) -> Array:
    return np.asarray(np.all(data, axis=attrs.axis or None, keepdims=attrs.keepdims))


def _any(data: Array, attrs: ReduceAttrs) -> Array:
    return np.asarray(np.any(data, axis=attrs.axis or None, keepdims=attrs.keepdims))


def _every(value: Expr, attrs: Attrs | None) -> Expr:
    return cast(op("prod", cast(value, DType.INT8), attrs=attrs), DType.BOOL)


def _expand_all(call: Call, _types: tuple[Type, ...]) -> Expr:
    return _every(call.args[0], call.attrs)


def _expand_any(call: Call, _types: tuple[Type, ...]) -> Expr:
    return op("logical_not", _every(op("logical_not", call.args[0]), call.attrs))


def _argmin(data: Array, attrs: ArgReduceAttrs) -> Array:
    if attrs.select_last_index:
        from_end = np.argmin(np.flip(data, attrs.axis), axis=attrs.axis, keepdims=attrs.keepdims)
        return np.asarray(data.shape[attrs.axis] - 1 - from_end).astype(attrs.dtype.numpy)
    index = np.argmin(data, axis=attrs.axis, keepdims=attrs.keepdims)
    return np.asarray(index).astype(attrs.dtype.numpy)


def _expand_argmin(call: Call, types: tuple[Type, ...]) -> Expr:
    """Turn the order round: the least of -x, or of all bits of x turned, is the greatest of x."""
    turned = "negative" if tensor(types[0]).dtype.is_float else "bitwise_not"
    return op("argmax", op(turned, call.args[0]), attrs=call.attrs)


def _variance_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, mean = static_tensors(call, types, 2)
    attrs = attributes(call, VarianceAttrs)
    require_dtype(call, data, FLOATS)
    require_same_dtype(call, (data, mean))
    if broadcast(call, [data.shape, mean.shape]) != data.shape:
        raise mistake(call, "takes a mean that broadcasts to the data", f"found {list(mean.shape)}")
    axes = normal_axes(call, attrs.axis, len(data.shape))
    require_elements(call, data.static_shape, axes)
    if attrs.unbiased and prod(data.static_shape[axis] for axis in axes) < 2:
        raise mistake(call, "needs two elements where n - 1 divides", f"shape {list(data.shape)}")
    return TensorType(reduced_shape(data.static_shape, axes, attrs.keepdims), data.dtype)


@ieee
def _variance(data: Array, mean: Array, attrs: VarianceAttrs) -> Array:
    axes = attrs.axis or tuple(range(data.ndim))
    apart = data.astype(np.float64) - mean
    count = prod(data.shape[axis] for axis in axes) - attrs.unbiased
    total = np.sum(apart * apart, axis=axes, keepdims=attrs.keepdims)
    return np.asarray(total / count).astype(data.dtype)


def _expand_variance(call: Call, types: tuple[Type, ...]) -> Expr:
    data, mean = call.args
    attrs, type_ = attrs_of(call, VarianceAttrs), tensor(types[0])
    apart = subtract(data, mean)
    over = ReduceAttrs(axis=attrs.axis, keepdims=attrs.keepdims)
    square = multiply(apart, apart)
    if not attrs.unbiased:
        return op("mean", square, attrs=over)
    total = op("sum", square, attrs=over)
    axes = attrs.axis or tuple(range(len(type_.shape)))
    found = [type_.shape[axis] for axis in axes]
    known = [dim for dim in found if dim is not UNKNOWN]
    if len(known) == len(found):
        return divide(total, number(prod(known) - 1, type_))
    count = op("sum", op("ones_like", data), attrs=over)
    return divide(total, subtract(count, number(1, type_)))


OPERATORS: Final = (
    composed(
        "all",
        reducing(_TRUTHS, needs_elements=False),
        _all,
        _expand_all,
        ReduceAttrs,
        work=per_input_element(1),
    ),
    composed(
        "any",
        reducing(_TRUTHS, needs_elements=False),
        _any,
        _expand_any,
        ReduceAttrs,
        work=per_input_element(1),
    ),
    composed(
        "argmin", arg_relation, _argmin, _expand_argmin, ArgReduceAttrs, work=per_input_element(1)
    ),
    composed(
        "variance",
        _variance_relation,
        _variance,
        _expand_variance,
        VarianceAttrs,
        work=per_input_element(3),
    ),
)
"""Every operator of this file."""
