"""one_hot: a new axis along which one place, told by an index, differs from the others.

    one_hot(%indices, %on, %off, depth=10, axis=-1)

result[…, i, …] = on where indices[…] = i, else off; an index outside of 0 … depth - 1 finds no
place. `on` and `off` are scalars of the result's element type. `axis` is the new axis's place in
the result; a negative one counts from its end.
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
    INTEGERS,
    attributes,
    mistake,
    no_work,
    normal_axis,
    require_dtype,
    require_rank,
    require_same_dtype,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class OneHotAttrs(Attrs):
    """Length and place of the new axis."""

    depth: int
    axis: int = -1


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    indices, on, off = tensors(call, types, 3)
    attrs = attributes(call, OneHotAttrs)
    require_dtype(call, indices, INTEGERS, "index tensor")
    require_rank(call, on, 0, "a value")
    require_rank(call, off, 0, "a value")
    require_same_dtype(call, (on, off))
    if attrs.depth < 0:
        raise mistake(call, "needs a depth that is not negative", f"found {attrs.depth}")
    axis = normal_axis(call, attrs.axis, len(indices.shape) + 1)
    return TensorType((*indices.shape[:axis], attrs.depth, *indices.shape[axis:]), on.dtype)


def _reference(indices: Array, on: Array, off: Array, attrs: OneHotAttrs) -> Array:
    hot = indices[..., None].astype(np.int64) == np.arange(attrs.depth)
    return np.asarray(np.where(np.moveaxis(hot, -1, attrs.axis), on, off), dtype=on.dtype)


OPERATOR: Final = Operator(
    name="one_hot",
    attrs=OneHotAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.INJECTIVE,
    accel=NotOnAccelerator(HOST_MOVES),
    work=no_work,
)
