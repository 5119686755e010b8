"""cast: the same values in another element type.

Integers to narrower integers keep the low bits. Floating point to integers truncates towards zero,
saturates at the ends of the range, and turns NaN into 0. Anything to `bool` asks whether it is not
0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import HOST_FLOAT, attributes, per_element, tensors


@final
@dataclass(frozen=True, kw_only=True)
class CastAttrs(Attrs):
    """The element type of the result."""

    dtype: DType


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    return TensorType(data.shape, attributes(call, CastAttrs).dtype)


def _float_to_integer(data: Array, dtype: DType) -> Array:
    whole = np.trunc(np.nan_to_num(data.astype(np.float64), nan=0.0))
    high = whole >= float(dtype.maximum)
    low = whole <= float(dtype.minimum)
    inside = np.where(high | low, 0.0, whole).astype(dtype.numpy)
    capped = np.where(high, dtype.numpy.type(dtype.maximum), inside)
    return np.asarray(np.where(low, dtype.numpy.type(dtype.minimum), capped), dtype=dtype.numpy)


@ieee
def _reference(data: Array, attrs: CastAttrs) -> Array:
    if attrs.dtype is DType.BOOL:
        return np.asarray(data != 0)
    if attrs.dtype.is_integer and data.dtype.kind == "f":
        return _float_to_integer(data, attrs.dtype)
    return data.astype(attrs.dtype.numpy)


OPERATOR: Final = Operator(
    name="cast",
    attrs=CastAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ELEMENTWISE,
    accel=NotOnAccelerator(HOST_FLOAT),
    work=per_element(1),
)
