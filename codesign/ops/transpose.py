"""transpose: axes in another order; no axes reverse them.

result.shape[i] = data.shape[axes[i]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

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
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class TransposeAttrs(Attrs):
    """The axis of the argument for each axis of the result; empty reverses all."""

    axes: tuple[int, ...] = ()


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    rank = len(data.shape)
    axes = attributes(call, TransposeAttrs).axes or tuple(reversed(range(rank)))
    normal = tuple(normal_axis(call, axis, rank) for axis in axes)
    if sorted(normal) != list(range(rank)):
        raise mistake(
            call, "names each axis once", f"found axes {list(axes)} of a tensor of rank {rank}"
        )
    return TensorType(tuple(data.shape[axis] for axis in normal), data.dtype)


def _reference(data: Array, attrs: TransposeAttrs) -> Array:
    return np.transpose(data, attrs.axes or None)


OPERATOR: Final = Operator(
    name="transpose",
    attrs=TransposeAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.INJECTIVE,
    accel=NotOnAccelerator(HOST_MOVES),
    work=no_work,
)
