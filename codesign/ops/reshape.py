"""reshape: the same elements in row-major order under another shape.

One length may be -1: it follows from the number of elements. A length of 0 is an empty axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, final

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.relations import attributes, mistake, no_work, static_tensors


@final
@dataclass(frozen=True, kw_only=True)
class ReshapeAttrs(Attrs):
    """The new shape."""

    shape: tuple[int, ...]


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    shape = attributes(call, ReshapeAttrs).shape
    return TensorType(_resolved(call, data.static_shape, shape), data.dtype)


def _resolved(call: Call, old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    if any(dim < -1 for dim in new) or new.count(-1) > 1:
        raise mistake(
            call,
            "needs lengths that are not negative",
            f"found {list(new)}",
            help="at most one length may be -1: it is inferred",
        )
    total, known = prod(old), prod(dim for dim in new if dim != -1)
    if -1 not in new:
        if total != known:
            raise _count_mistake(call, old, new)
        return new
    if known == 0 or total % known:
        raise _count_mistake(call, old, new)
    return tuple(total // known if dim == -1 else dim for dim in new)


def _count_mistake(call: Call, old: tuple[int, ...], new: tuple[int, ...]) -> Exception:
    return mistake(
        call,
        "changes the number of elements",
        f"shape {list(old)} has {prod(old)} elements, {list(new)} does not hold as many",
    )


def _reference(data: Array, attrs: ReshapeAttrs) -> Array:
    return data.reshape(attrs.shape)


OPERATOR: Final = Operator(
    name="reshape",
    attrs=ReshapeAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.INJECTIVE,
    accel=OnUnit("vector"),
    work=no_work,
)
