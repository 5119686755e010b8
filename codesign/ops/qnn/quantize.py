"""qnn.quantize and qnn.dequantize: between floating point and integers, one scale for a tensor.

    quantize(x)   = clip(half_even(x / scale) + zero_point)     the quotient in float32
    dequantize(q) = float32(q - zero_point) * float32(scale)

Infinities saturate; a NaN becomes the zero point.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.qnn.limits import require_zero_point
from codesign.ops.relations import attributes, mistake, per_element, require_dtype, tensors


@final
@dataclass(frozen=True, kw_only=True)
class QuantizeAttrs(Attrs):
    """The meaning of the integers: (q - zero_point) * scale; `dtype` is the integers' type."""

    scale: float
    zero_point: int
    dtype: DType = DType.INT8


_NARROW: Final = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})
_FLOAT: Final = frozenset({DType.FLOAT32})


def _checked(call: Call) -> QuantizeAttrs:
    attrs = attributes(call, QuantizeAttrs)
    if attrs.dtype not in _NARROW:
        raise mistake(call, "has no meaning for this type of integers", f"found {attrs.dtype}")
    scale = float(np.float32(attrs.scale)) if isfinite(attrs.scale) else attrs.scale
    if not (isfinite(scale) and scale > 0):
        raise mistake(call, "needs a scale that is a positive float32", f"found {attrs.scale!r}")
    require_zero_point(call, attrs.zero_point, attrs.dtype)
    return attrs


def _quantize_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    require_dtype(call, data, _FLOAT)
    return TensorType(data.shape, _checked(call).dtype)


def _dequantize_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    require_dtype(call, data, frozenset({_checked(call).dtype}))
    return TensorType(data.shape, DType.FLOAT32)


@ieee
def _quantize(data: Array, attrs: QuantizeAttrs) -> Array:
    steps = np.rint(data.astype(np.float32) / np.float32(attrs.scale)).astype(np.float64)
    places = np.nan_to_num(steps, nan=0.0, posinf=np.inf, neginf=-np.inf) + attrs.zero_point
    dtype = attrs.dtype
    return np.asarray(np.clip(places, dtype.minimum, dtype.maximum)).astype(dtype.numpy)


@ieee
def _dequantize(data: Array, attrs: QuantizeAttrs) -> Array:
    steps = (data.astype(np.int32) - attrs.zero_point).astype(np.float32)
    return np.asarray(steps * np.float32(attrs.scale))


_REASON: Final = "the accelerator has no floating point; conversion is the host's"

OPERATORS: Final = (
    Operator(
        name="qnn.quantize",
        attrs=QuantizeAttrs,
        relation=_quantize_relation,
        reference=_quantize,
        fusion=Fusion.ELEMENTWISE,
        accel=NotOnAccelerator(_REASON),
        work=per_element(4),
    ),
    Operator(
        name="qnn.dequantize",
        attrs=QuantizeAttrs,
        relation=_dequantize_relation,
        reference=_dequantize,
        fusion=Fusion.ELEMENTWISE,
        accel=NotOnAccelerator(_REASON),
        work=per_element(2),
    ),
)
"""Every operator of this file."""
