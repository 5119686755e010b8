"""arange and shape_of: numbers in a row, and the lengths of a tensor.

    arange(start=0f, stop=5f, step=2f, dtype="int32")     0, 2, 4
    shape_of(%x, dtype="int64")                           one number for each axis

`arange` ends before `stop`; its numbers are start + i * step in float64, then in the element type.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import HOST_MOVES, INTEGERS, attributes, mistake, no_work, tensors


@final
@dataclass(frozen=True, kw_only=True)
class ArangeAttrs(Attrs):
    """Where the numbers begin, before what they end, their distance and their type."""

    stop: float
    start: float = 0.0
    step: float = 1.0
    dtype: DType = DType.FLOAT32

    @property
    def length(self) -> int:
        """How many numbers there are."""
        return max(0, ceil((self.stop - self.start) / self.step))


@final
@dataclass(frozen=True, kw_only=True)
class ShapeOfAttrs(Attrs):
    """The element type of the lengths."""

    dtype: DType = DType.INT64


def _arange_relation(call: Call, types: tuple[Type, ...]) -> Type:
    tensors(call, types, 0)
    attrs = attributes(call, ArangeAttrs)
    ends = (attrs.start, attrs.stop, attrs.step)
    if not all(map(isfinite, ends)) or attrs.step == 0:
        raise mistake(call, "needs numbers and a step that is not 0", f"found {list(ends)}")
    return TensorType((attrs.length,), attrs.dtype)


def _shape_of_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    dtype = attributes(call, ShapeOfAttrs).dtype
    if dtype not in INTEGERS:
        raise mistake(call, "gives integers", f"the result's element type is {dtype}")
    return TensorType((len(data.shape),), dtype)


def _arange(attrs: ArangeAttrs) -> Array:
    return (attrs.start + np.arange(attrs.length) * attrs.step).astype(attrs.dtype.numpy)


def _shape_of(data: Array, attrs: ShapeOfAttrs) -> Array:
    return np.array(data.shape, attrs.dtype.numpy)


OPERATORS: Final = (
    Operator(
        name="arange",
        attrs=ArangeAttrs,
        relation=_arange_relation,
        reference=_arange,
        fusion=Fusion.INJECTIVE,
        accel=NotOnAccelerator(HOST_MOVES),
        work=no_work,
    ),
    Operator(
        name="shape_of",
        attrs=ShapeOfAttrs,
        relation=_shape_of_relation,
        reference=_shape_of,
        fusion=Fusion.OPAQUE,
        accel=NotOnAccelerator(HOST_MOVES),
        work=no_work,
    ),
)
"""Every operator of this file."""
