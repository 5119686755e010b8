"""nn.dropout: at inference, which is what we compile, the data itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import Type
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    FLOATS,
    HOST_FLOAT,
    attributes,
    mistake,
    no_work,
    require_dtype,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class DropoutAttrs(Attrs):
    """The share of elements that training drops."""

    rate: float = 0.5


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    require_dtype(call, data, FLOATS, "data")
    rate = attributes(call, DropoutAttrs).rate
    if not 0 <= rate < 1:
        raise mistake(call, "drops a share of 0 up to less than 1", f"found {rate}")
    return data


def _reference(data: Array, attrs: DropoutAttrs) -> Array:
    return data


OPERATOR: Final = Operator(
    name="nn.dropout",
    attrs=DropoutAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ELEMENTWISE,
    accel=NotOnAccelerator(HOST_FLOAT),
    work=no_work,
)
