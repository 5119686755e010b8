"""concatenate: the tensors of a tuple one after the other along an axis.

A length that is not known fits any; along the axis it makes that of the result unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.relations import (
    attributes,
    mistake,
    no_work,
    normal_axis,
    require_same_dtype,
    spelled,
    tensors,
)


def _fields(call: Call, types: tuple[Type, ...]) -> tuple[TensorType, ...]:
    match types:
        case (TupleType(fields),) if fields:
            return tensors(call, fields, len(fields))
        case _:
            found = ", ".join(spelled(each) for each in types)
            raise mistake(call, "takes one tuple of at least one tensor", f"found {found}")


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    fields = _fields(call, types)
    require_same_dtype(call, fields)
    shapes = [field.shape for field in fields]
    axis = normal_axis(call, attributes(call, AxisAttrs).axis, len(shapes[0]))
    others = [shape[:axis] + shape[axis + 1 :] for shape in shapes]
    is_ragged = len({len(shape) for shape in shapes}) > 1
    if is_ragged or any(len(_known(dims)) > 1 for dims in zip(*others, strict=True)):
        found = " and ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes)
        raise mistake(
            call,
            "joins tensors that differ along one axis only",
            f"shapes {found} along axis {axis}",
        )
    joined = [_joined(dims) for dims in zip(*others, strict=True)]
    along = [shape[axis] for shape in shapes]
    known = [dim for dim in along if dim is not UNKNOWN]
    total = sum(known) if len(known) == len(along) else UNKNOWN
    return TensorType((*joined[:axis], total, *joined[axis:]), fields[0].dtype)


def _known(dims: Iterable[Dim]) -> set[int]:
    return {dim for dim in dims if dim is not UNKNOWN}


def _joined(dims: Iterable[Dim]) -> Dim:
    """Return the one length that all have; a length that is known makes the others so."""
    return next(iter(_known(dims)), UNKNOWN)


def _reference(fields: tuple[Array, ...], attrs: AxisAttrs) -> Array:
    return np.concatenate(fields, axis=attrs.axis)


OPERATOR: Final = Operator(
    name="concatenate",
    attrs=AxisAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.INJECTIVE,
    accel=OnUnit("vector"),
    work=no_work,
)
