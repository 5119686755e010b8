"""Normalizations by the data's own statistics.

    nn.layer_norm(%x, gamma, beta, axis, epsilon)       over one axis
    nn.instance_norm(%x, gamma, beta, axis, epsilon)    over all axes but the first and the channels
    nn.group_norm(%x, gamma, beta, num_groups, axis, epsilon)    over groups of channels too
    nn.l2_normalize(%x, axis, epsilon)                  x / sqrt(max(sum of x * x, epsilon))

The first three are (x - mean) / sqrt(variance + epsilon) * gamma + beta with mean and variance (of
the whole, not of a sample) over those axes; gamma and beta are vectors along `axis`. Everything is
computed in float64 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Final, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.bias_add import along_axis
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator, Reference, Relation
from codesign.ops.reduce import normal_axes
from codesign.ops.relations import (
    FLOATS,
    HOST_FLOAT,
    attributes,
    mistake,
    normal_axis,
    per_element,
    require_dtype,
    require_same_dtype,
    require_shape,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class LayerNormAttrs(Attrs):
    """The axis that is normalized, and what is added to the variance."""

    axis: int = -1
    epsilon: float = 1e-5


@final
@dataclass(frozen=True, kw_only=True)
class InstanceNormAttrs(Attrs):
    """The axis of channels, and what is added to the variance."""

    axis: int = 1
    epsilon: float = 1e-5


@final
@dataclass(frozen=True, kw_only=True)
class GroupNormAttrs(Attrs):
    """How many groups the channels make, their axis, and what is added to the variance."""

    num_groups: int
    axis: int = 1
    epsilon: float = 1e-5


@final
@dataclass(frozen=True, kw_only=True)
class L2NormalizeAttrs(Attrs):
    """The axes that are summed over (none: all), and the least sum."""

    epsilon: float = field(metadata={"text": "eps"})
    axis: tuple[int, ...] = ()


def layer_axes(attrs: LayerNormAttrs, rank: int) -> tuple[int, ...]:
    """Return the axes that nn.layer_norm normalizes."""
    return (attrs.axis % rank,)


def instance_axes(attrs: InstanceNormAttrs, rank: int) -> tuple[int, ...]:
    """Return the axes that nn.instance_norm normalizes."""
    return tuple(axis for axis in range(1, rank) if axis != attrs.axis % rank)


def grouped_shape(attrs: GroupNormAttrs, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with the axis of channels split into groups and what is in one."""
    axis = attrs.axis % len(shape)
    groups = attrs.num_groups
    return (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def grouped_axes(attrs: GroupNormAttrs, rank: int) -> tuple[int, ...]:
    """Return the axes of the grouped shape that nn.group_norm normalizes."""
    groups = attrs.axis % rank
    return tuple(axis for axis in range(1, rank + 1) if axis != groups)


def _checked(call: Call, types: tuple[Type, ...], axis: int) -> TensorType:
    data, gamma, beta = static_tensors(call, types, 3)
    require_dtype(call, data, FLOATS, "data")
    require_same_dtype(call, (data, gamma, beta))
    channels = data.static_shape[normal_axis(call, axis, len(data.shape))]
    require_shape(call, gamma, (channels,), "a gamma")
    require_shape(call, beta, (channels,), "a beta")
    return data


def _layer_relation(call: Call, types: tuple[Type, ...]) -> Type:
    return _checked(call, types, attributes(call, LayerNormAttrs).axis)


def _instance_relation(call: Call, types: tuple[Type, ...]) -> Type:
    attrs = attributes(call, InstanceNormAttrs)
    data = _checked(call, types, attrs.axis)
    if attrs.axis % len(data.shape) == 0:
        raise mistake(call, "needs channels that are not the first axis", f"axis {attrs.axis}")
    return data


def _group_relation(call: Call, types: tuple[Type, ...]) -> Type:
    attrs = attributes(call, GroupNormAttrs)
    data = _checked(call, types, attrs.axis)
    axis = attrs.axis % len(data.shape)
    if axis == 0:
        raise mistake(call, "needs channels that are not the first axis", f"axis {attrs.axis}")
    if attrs.num_groups < 1 or data.static_shape[axis] % attrs.num_groups:
        raise mistake(
            call,
            "needs groups of equal length",
            f"{attrs.num_groups} groups of {data.static_shape[axis]} channels",
        )
    return data


def _l2_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    require_dtype(call, data, FLOATS, "data")
    normal_axes(call, attributes(call, L2NormalizeAttrs).axis, len(data.shape))
    return data


def _normalized(data: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    wide = data.astype(np.float64)
    if not prod(data.shape[axis] for axis in axes):
        return wide
    mean = wide.mean(axis=axes, keepdims=True)
    variance = wide.var(axis=axes, keepdims=True)
    return np.asarray((wide - mean) / np.sqrt(variance + epsilon))


def _scaled(data: Array, normal: Array, gamma: Array, beta: Array, axis: int) -> Array:
    rank = data.ndim
    result = normal * along_axis(gamma, axis, rank) + along_axis(beta, axis, rank)
    return np.asarray(result).astype(data.dtype)


@ieee
def _layer_norm(data: Array, gamma: Array, beta: Array, attrs: LayerNormAttrs) -> Array:
    normal = _normalized(data, layer_axes(attrs, data.ndim), attrs.epsilon)
    return _scaled(data, normal, gamma, beta, attrs.axis)


@ieee
def _instance_norm(data: Array, gamma: Array, beta: Array, attrs: InstanceNormAttrs) -> Array:
    normal = _normalized(data, instance_axes(attrs, data.ndim), attrs.epsilon)
    return _scaled(data, normal, gamma, beta, attrs.axis)


@ieee
def _group_norm(data: Array, gamma: Array, beta: Array, attrs: GroupNormAttrs) -> Array:
    grouped = data.reshape(grouped_shape(attrs, data.shape))
    normal = _normalized(grouped, grouped_axes(attrs, data.ndim), attrs.epsilon)
    return _scaled(data, normal.reshape(data.shape), gamma, beta, attrs.axis)


@ieee
def _l2_normalize(data: Array, attrs: L2NormalizeAttrs) -> Array:
    wide = data.astype(np.float64)
    axes = attrs.axis or tuple(range(data.ndim))
    total = np.maximum(np.sum(wide * wide, axis=axes, keepdims=True), attrs.epsilon)
    return np.asarray(wide / np.sqrt(total)).astype(data.dtype)


def _operator(name: str, attrs: type[Attrs], relation: Relation, reference: Reference) -> Operator:
    return Operator(
        name=name,
        attrs=attrs,
        relation=relation,
        reference=reference,
        fusion=Fusion.OPAQUE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(8),
    )


OPERATORS: Final = (
    _operator("nn.layer_norm", LayerNormAttrs, _layer_relation, _layer_norm),
    _operator("nn.instance_norm", InstanceNormAttrs, _instance_relation, _instance_norm),
    _operator("nn.group_norm", GroupNormAttrs, _group_relation, _group_norm),
    _operator("nn.l2_normalize", L2NormalizeAttrs, _l2_relation, _l2_normalize),
)
"""Every operator of this file."""
