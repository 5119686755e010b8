"""collapse_sum_to and collapse_sum_like: sum a tensor down to a shape that broadcasts to its own.

    collapse_sum_to(%x, shape=[3, 1])     (2, 3, 4) to (3, 1): summed over axes 0 and 2
    collapse_sum_like(%x, %y)             to the shape of %y, whose values have no influence

They undo a broadcast: the adjoint of a broadcast operand is the collapsed sum of the result's.
Floating-point sums are computed in float64 and rounded once; integers wrap around.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, Type
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_FLOAT,
    NUMBERS,
    attributes,
    mistake,
    per_input_element,
    require_dtype,
    require_same_dtype,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class CollapseSumAttrs(Attrs):
    """The shape of the result."""

    shape: tuple[int, ...]


def collapsed_axes(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of a shape over which is summed to reach the target, the first ones first."""
    extra = len(shape) - len(target)
    pairs = enumerate(zip(shape[extra:], target, strict=True), start=extra)
    return (*range(extra), *(axis for axis, (dim, kept) in pairs if kept == 1 and dim != 1))


def _reaches(shape: tuple[Dim, ...], target: tuple[Dim, ...]) -> bool:
    extra = len(shape) - len(target)
    return extra >= 0 and all(
        kept in (1, dim, UNKNOWN) or dim is UNKNOWN
        for dim, kept in zip(shape[extra:], target, strict=True)
    )


def _collapsed(call: Call, data: TensorType, shape: tuple[Dim, ...]) -> Type:
    require_dtype(call, data, NUMBERS)
    if not _reaches(data.shape, shape):
        raise mistake(
            call,
            "sums to a shape that broadcasts to the argument's",
            f"from [{', '.join(map(str, data.shape))}] to [{', '.join(map(str, shape))}]",
        )
    return TensorType(shape, data.dtype)


def _to_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    return _collapsed(call, data, attributes(call, CollapseSumAttrs).shape)


def _like_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, like = tensors(call, types, 2)
    require_same_dtype(call, (data, like))
    return _collapsed(call, data, like.shape)


@ieee
def _sum_to(data: Array, shape: tuple[int, ...]) -> Array:
    axes = collapsed_axes(data.shape, shape)
    if not axes:
        return data.copy()
    wide = np.float64 if data.dtype.kind == "f" else data.dtype.type
    return np.asarray(np.sum(data, axis=axes, dtype=wide)).astype(data.dtype).reshape(shape)


def _to(data: Array, attrs: CollapseSumAttrs) -> Array:
    return _sum_to(data, attrs.shape)


def _like(data: Array, like: Array) -> Array:
    return _sum_to(data, like.shape)


OPERATORS: Final = (
    Operator(
        name="collapse_sum_to",
        attrs=CollapseSumAttrs,
        relation=_to_relation,
        reference=_to,
        fusion=Fusion.REDUCTION,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_input_element(1),
    ),
    Operator(
        name="collapse_sum_like",
        relation=_like_relation,
        reference=_like,
        fusion=Fusion.REDUCTION,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_input_element(1),
    ),
)
"""Every operator of this file."""
