"""strided_slice: every so many elements of a range of each named axis.

`begin`, `end` and `strides` mean what they mean in Python's `data[begin:end:stride]`: negative
places count from the end, places outside are moved to the edge, a negative stride goes backwards
(then an `end` below `-length` includes the first element).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_MOVES,
    attributes,
    mistake,
    no_work,
    normal_axis,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class StridedSliceAttrs(Attrs):
    """One range for each of `axes`; no `axes` name the first ones, no `strides` are all 1."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()


def slices(attrs: StridedSliceAttrs, rank: int) -> tuple[slice, ...]:
    """Return a Python slice for every axis of a tensor of this rank."""
    result = [slice(None)] * rank
    axes = attrs.axes or tuple(range(len(attrs.begin)))
    strides = attrs.strides or (1,) * len(attrs.begin)
    for axis, begin, end, stride in zip(axes, attrs.begin, attrs.end, strides, strict=True):
        result[axis] = slice(begin, end, stride)
    return tuple(result)


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, StridedSliceAttrs)
    shape = data.static_shape
    _check(call, attrs, len(shape))
    lengths = tuple(
        len(range(*each.indices(dim)))
        for each, dim in zip(_exact(attrs, shape), shape, strict=True)
    )
    return TensorType(lengths, data.dtype)


def _check(call: Call, attrs: StridedSliceAttrs, rank: int) -> None:
    counts = {len(attrs.begin), len(attrs.end)}
    counts |= {len(attrs.strides)} if attrs.strides else set()
    counts |= {len(attrs.axes)} if attrs.axes else set()
    if len(counts) > 1 or len(attrs.begin) > rank:
        raise mistake(
            call,
            "needs one begin, end and stride for each axis",
            f"begin {list(attrs.begin)}, end {list(attrs.end)}, strides {list(attrs.strides)}, "
            f"axes {list(attrs.axes)}, rank {rank}",
        )
    if 0 in attrs.strides:
        raise mistake(call, "needs strides other than 0", f"found strides {list(attrs.strides)}")
    normal = [normal_axis(call, axis, rank) for axis in attrs.axes]
    if len(set(normal)) != len(normal):
        raise mistake(call, "names an axis twice", f"axes {list(attrs.axes)}")


def _exact(attrs: StridedSliceAttrs, shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(
        slice(each.start, None, each.step)
        if each.step is not None and each.step < 0 and each.stop < -dim
        else each
        for each, dim in zip(slices(attrs, len(shape)), shape, strict=True)
    )


def _reference(data: Array, attrs: StridedSliceAttrs) -> Array:
    return data[_exact(attrs, data.shape)]


OPERATOR: Final = Operator(
    name="strided_slice",
    attrs=StridedSliceAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.INJECTIVE,
    accel=NotOnAccelerator(HOST_MOVES),
    work=no_work,
)
