"""clip: the nearest value between two bounds.

    result = min(max(data, minimum), maximum)

A NaN stays a NaN. For integers the bounds are first tightened to integers of the element type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor, isinf
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import Type
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_FLOAT,
    NUMBERS,
    attributes,
    mistake,
    per_element,
    require_dtype,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class ClipAttrs(Attrs):
    """The two bounds, both inclusive."""

    minimum: float = field(metadata={"text": "a_min"})
    maximum: float = field(metadata={"text": "a_max"})


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    require_dtype(call, data, NUMBERS)
    attrs = attributes(call, ClipAttrs)
    if not attrs.minimum <= attrs.maximum:
        raise mistake(
            call, "has bounds out of order", f"minimum {attrs.minimum}, maximum {attrs.maximum}"
        )
    return data


def _integer_bounds(attrs: ClipAttrs, dtype: DType) -> tuple[int, int]:
    low, high = dtype.minimum, dtype.maximum
    least = low if isinf(attrs.minimum) else min(max(ceil(attrs.minimum), low), high)
    greatest = high if isinf(attrs.maximum) else min(max(floor(attrs.maximum), low), high)
    return least, greatest


def _reference(data: Array, attrs: ClipAttrs) -> Array:
    kind = data.dtype.type
    if data.dtype.kind == "f":
        return np.asarray(np.clip(data, kind(attrs.minimum), kind(attrs.maximum)))
    least, greatest = _integer_bounds(attrs, DType.of(data.dtype))
    return np.asarray(np.clip(data, kind(least), kind(greatest)))


OPERATOR: Final = Operator(
    name="clip",
    attrs=ClipAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ELEMENTWISE,
    accel=NotOnAccelerator(HOST_FLOAT),
    work=per_element(2),
)
