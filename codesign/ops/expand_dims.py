"""expand_dims and squeeze: axes of length 1 come and go.

    expand_dims(%x, axis=1, num_newaxis=2)     (a, b) to (a, 1, 1, b)
    squeeze(%x, axis=[0, -1])                  (1, a, 1) to (a)

A negative `axis` of expand_dims counts from the end of the result's shape, so that -1 puts the new
axes last. `squeeze` without axes drops every axis of length 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.reduce import normal_axes
from codesign.ops.relations import HOST_MOVES, attributes, mistake, no_work, spelled, tensors


@final
@dataclass(frozen=True, kw_only=True)
class ExpandDimsAttrs(Attrs):
    """Where the new axes begin in the result, and how many there are."""

    axis: int
    num_newaxis: int = 1


@final
@dataclass(frozen=True, kw_only=True)
class SqueezeAttrs(Attrs):
    """The axes that are dropped; none: all of length 1."""

    axis: tuple[int, ...] = ()


def _begin(attrs: ExpandDimsAttrs, rank: int) -> int:
    return attrs.axis if attrs.axis >= 0 else rank + 1 + attrs.axis


def _expand_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    attrs = attributes(call, ExpandDimsAttrs)
    rank = len(data.shape)
    if attrs.num_newaxis < 0:
        raise mistake(call, "needs a number of new axes", f"found {attrs.num_newaxis}")
    begin = _begin(attrs, rank)
    if not 0 <= begin <= rank:
        raise mistake(
            call, "names a place that does not exist", f"axis {attrs.axis}, the rank is {rank}"
        )
    new = (1,) * attrs.num_newaxis
    return TensorType((*data.shape[:begin], *new, *data.shape[begin:]), data.dtype)


def _squeeze_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    axes = attributes(call, SqueezeAttrs).axis
    if not axes and UNKNOWN in data.shape:
        raise mistake(
            call,
            "needs axes where a length is not known",
            f"found {spelled(data)}",
            "name the axes",
        )
    dropped = (
        normal_axes(call, axes, len(data.shape))
        if axes
        else [axis for axis, dim in enumerate(data.shape) if dim == 1]
    )
    if any(data.shape[axis] not in (1, UNKNOWN) for axis in dropped):
        raise mistake(call, "drops axes of length 1 only", f"axes {list(axes)} of {spelled(data)}")
    kept = tuple(dim for axis, dim in enumerate(data.shape) if axis not in dropped)
    return TensorType(kept, data.dtype)


def _expand(data: Array, attrs: ExpandDimsAttrs) -> Array:
    begin = _begin(attrs, data.ndim)
    return data.reshape(*data.shape[:begin], *(1,) * attrs.num_newaxis, *data.shape[begin:])


def _squeeze(data: Array, attrs: SqueezeAttrs) -> Array:
    return data.squeeze(attrs.axis or None)


OPERATORS: Final = (
    Operator(
        name="expand_dims",
        attrs=ExpandDimsAttrs,
        relation=_expand_relation,
        reference=_expand,
        fusion=Fusion.BROADCAST,
        accel=NotOnAccelerator(HOST_MOVES),
        work=no_work,
    ),
    Operator(
        name="squeeze",
        attrs=SqueezeAttrs,
        relation=_squeeze_relation,
        reference=_squeeze,
        fusion=Fusion.INJECTIVE,
        accel=NotOnAccelerator(HOST_MOVES),
        work=no_work,
    ),
)
"""Every operator of this file."""
