"""concatenate: the tensors of a tuple one after the other along an axis."""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.relations import (
    attributes,
    mistake,
    no_work,
    normal_axis,
    require_same_dtype,
    spelled,
    static_tensors,
)


def _fields(call: Call, types: tuple[Type, ...]) -> tuple[TensorType, ...]:
    match types:
        case (TupleType(fields),) if fields:
            return static_tensors(call, fields, len(fields))
        case _:
            found = ", ".join(spelled(each) for each in types)
            raise mistake(call, "takes one tuple of at least one tensor", f"found {found}")


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    fields = _fields(call, types)
    require_same_dtype(call, fields)
    shapes = [field.static_shape for field in fields]
    axis = normal_axis(call, attributes(call, AxisAttrs).axis, len(shapes[0]))
    others = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    if len(others) > 1 or len({len(shape) for shape in shapes}) > 1:
        found = " and ".join(str(list(shape)) for shape in shapes)
        raise mistake(
            call,
            "joins tensors that differ along one axis only",
            f"shapes {found} along axis {axis}",
        )
    total = sum(shape[axis] for shape in shapes)
    return TensorType((*shapes[0][:axis], total, *shapes[0][axis + 1 :]), fields[0].dtype)


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
