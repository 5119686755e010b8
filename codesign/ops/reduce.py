"""Reductions over axes: sum mean max min prod argmax.

`axis` empty means every axis. Floating-point sums and products are computed in float64 and rounded
once; integers wrap around in their own type. An empty axis sums to 0 and multiplies to 1; it has no
mean, greatest or least element, which is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator, Relation
from codesign.ops.relations import (
    FLOATS,
    HOST_FLOAT,
    INTEGERS,
    NUMBERS,
    attributes,
    mistake,
    normal_axis,
    per_input_element,
    require_dtype,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class ReduceAttrs(Attrs):
    """The axes that are reduced (none: all), and whether they stay with length 1."""

    axis: tuple[int, ...] = ()
    keepdims: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class ArgReduceAttrs(Attrs):
    """The axis that is searched, and which of equal elements is meant."""

    axis: int
    keepdims: bool = False
    select_last_index: bool = False
    dtype: DType = DType.INT64


def normal_axes(call: Call, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the axes in order, counted from the front; no axes mean all."""
    if not axes:
        return tuple(range(rank))
    normal = tuple(sorted(normal_axis(call, axis, rank) for axis in axes))
    if len(set(normal)) != len(normal):
        raise mistake(call, "names an axis twice", f"axes {axes} of a tensor of rank {rank}")
    return normal


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape after a reduction over axes that count from the front."""
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def require_elements(call: Call, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Refuse a reduction over no elements."""
    if prod(shape[axis] for axis in axes) == 0:
        raise mistake(
            call, "has no value over an empty axis", f"axes {axes} of shape {list(shape)}"
        )


def reducing(allowed: frozenset[DType], needs_elements: bool) -> Relation:
    """Return the relation of a reduction of tensors with these element types."""

    def relation(call: Call, types: tuple[Type, ...]) -> Type:
        (data,) = static_tensors(call, types, 1)
        attrs = attributes(call, ReduceAttrs)
        require_dtype(call, data, allowed)
        axes = normal_axes(call, attrs.axis, len(data.shape))
        if needs_elements:
            require_elements(call, data.static_shape, axes)
        return TensorType(reduced_shape(data.static_shape, axes, attrs.keepdims), data.dtype)

    return relation


def _wide(data: Array) -> type[np.generic]:
    return np.float64 if data.dtype.kind == "f" else data.dtype.type


def _sum(data: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.sum(data, axis=axis, keepdims=keepdims, dtype=_wide(data)))


def _prod(data: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.prod(data, axis=axis, keepdims=keepdims, dtype=_wide(data)))


def _mean(data: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.mean(data, axis=axis, keepdims=keepdims, dtype=np.float64))


def _max(data: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.max(data, axis=axis, keepdims=keepdims))


def _min(data: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.min(data, axis=axis, keepdims=keepdims))


def _reduction(
    name: str,
    function: Callable[[Array, tuple[int, ...], bool], Array],
    allowed: frozenset[DType],
    needs_elements: bool,
) -> Operator:
    @ieee
    def reference(data: Array, attrs: ReduceAttrs) -> Array:
        axes = attrs.axis or tuple(range(data.ndim))
        return function(data, axes, attrs.keepdims).astype(data.dtype)

    return Operator(
        name=name,
        attrs=ReduceAttrs,
        relation=reducing(allowed, needs_elements),
        reference=reference,
        fusion=Fusion.REDUCTION,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_input_element(1),
    )


def arg_relation(call: Call, types: tuple[Type, ...]) -> Type:
    """Say what a search for a place along an axis gives."""
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, ArgReduceAttrs)
    require_dtype(call, data, NUMBERS)
    if attrs.dtype not in INTEGERS:
        raise mistake(call, "gives integers", f"the result's element type is {attrs.dtype}")
    axes = (normal_axis(call, attrs.axis, len(data.shape)),)
    require_elements(call, data.static_shape, axes)
    return TensorType(reduced_shape(data.static_shape, axes, attrs.keepdims), attrs.dtype)


def _argmax(data: Array, attrs: ArgReduceAttrs) -> Array:
    if attrs.select_last_index:
        from_end = np.argmax(np.flip(data, attrs.axis), axis=attrs.axis, keepdims=attrs.keepdims)
        index = data.shape[attrs.axis] - 1 - from_end
    else:
        index = np.argmax(data, axis=attrs.axis, keepdims=attrs.keepdims)
    return np.asarray(index).astype(attrs.dtype.numpy)


OPERATORS: Final = (
    _reduction("sum", _sum, NUMBERS, needs_elements=False),
    _reduction("prod", _prod, NUMBERS, needs_elements=False),
    _reduction("mean", _mean, FLOATS, needs_elements=True),
    _reduction("max", _max, NUMBERS, needs_elements=True),
    _reduction("min", _min, NUMBERS, needs_elements=True),
    Operator(
        name="argmax",
        attrs=ArgReduceAttrs,
        relation=arg_relation,
        reference=_argmax,
        fusion=Fusion.REDUCTION,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_input_element(1),
    ),
)
"""Every operator of this file."""
