"""split: the pieces of a tensor along an axis, as a tuple.

`indices_or_sections` is a number of equal pieces, or the places where pieces after the first begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_MOVES,
    attributes,
    mistake,
    no_work,
    normal_axis,
    require_positive,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class SplitAttrs(Attrs):
    """How many equal pieces, or where pieces begin; and along which axis."""

    indices_or_sections: int | tuple[int, ...]
    axis: int = 0


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, SplitAttrs)
    shape = data.static_shape
    axis = normal_axis(call, attrs.axis, len(shape))
    return TupleType(
        tuple(
            TensorType((*shape[:axis], length, *shape[axis + 1 :]), data.dtype)
            for length in _lengths(call, attrs.indices_or_sections, shape[axis])
        )
    )


def _lengths(call: Call, where: int | tuple[int, ...], length: int) -> tuple[int, ...]:
    if isinstance(where, int):
        require_positive(call, (where,), "sections")
        if length % where:
            raise mistake(
                call, "makes equal pieces", f"length {length} is not a multiple of {where}"
            )
        return (length // where,) * where
    places = (0, *where, length)
    if any(later < earlier for earlier, later in pairwise(places)):
        raise mistake(
            call, "needs places in order", f"found {list(where)} for an axis of length {length}"
        )
    return tuple(later - earlier for earlier, later in pairwise(places))


def _reference(data: Array, attrs: SplitAttrs) -> tuple[Array, ...]:
    where = attrs.indices_or_sections
    return tuple(np.split(data, where if isinstance(where, int) else list(where), axis=attrs.axis))


OPERATOR: Final = Operator(
    name="split",
    attrs=SplitAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.INJECTIVE,
    accel=NotOnAccelerator(HOST_MOVES),
    work=no_work,
)
