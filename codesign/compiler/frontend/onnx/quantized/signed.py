"""The signed form of codes, which the integer operators of this compiler take.

Codes of uint8 become int8 by taking 128 away, from the zero point too; what is made signed right
after it was made unsigned stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ops.cast import CastAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs

_SIGNED: Final[Mapping[DType, DType]] = {DType.UINT8: DType.INT8, DType.UINT16: DType.INT16}
_WIDE: Final[Mapping[DType, DType]] = {DType.UINT8: DType.INT16, DType.UINT16: DType.INT32}
MOVES: Final = frozenset({"reshape", "transpose", "strided_slice", "nn.max_pool2d"})
"""Operators that give elements of their argument: codes may be shifted before or after."""


def offset_of(dtype: DType) -> int:
    """Return what codes of this type lose when they become signed."""
    return 1 << (dtype.bits - 1) if dtype in _SIGNED else 0


def signed_type(dtype: DType) -> DType:
    """Return the signed type of as many bits."""
    return _SIGNED.get(dtype, dtype)


def signed(builder: Builder, codes: Expr) -> Expr:
    """Return codes less their `offset_of`, as int8 or int16."""
    dtype = builder.dtype_of(codes)
    if dtype not in _SIGNED:
        return codes
    match codes:
        case Constant(value):
            moved = value.astype(np.int32) - offset_of(dtype)
            return builder.constant(moved.astype(_SIGNED[dtype].numpy))
        case Call(
            callee=OpRef(name="cast"),
            args=(
                Call(
                    callee=OpRef(name="add"),
                    args=(Call(callee=OpRef(name="cast"), args=(inner,)), Constant(value)),
                ),
            ),
        ) if value.size == 1 and int(value.reshape(())) == offset_of(dtype):
            if builder.dtype_of(inner) is _SIGNED[dtype]:
                return inner
        case Call(callee=OpRef(name="qnn.quantize"), args=(data,), attrs=QuantizeAttrs() as attrs):
            zero_point = attrs.zero_point - offset_of(dtype)
            kept = replace(attrs, zero_point=zero_point, dtype=_SIGNED[dtype])
            return builder.call("qnn.quantize", data, attrs=kept)
        case Call(callee=OpRef(name=name), args=(data,), attrs=moves) if name in MOVES:
            return builder.call(name, signed(builder, data), attrs=moves)
        case _:
            pass
    return _shifted(builder, codes, -offset_of(dtype), _WIDE[dtype], _SIGNED[dtype])


def unsigned(builder: Builder, codes: Expr, dtype: DType) -> Expr:
    """Return signed codes as `dtype`; itself where that is signed."""
    if dtype not in _SIGNED:
        return codes
    return _shifted(builder, codes, offset_of(dtype), _WIDE[dtype], dtype)


def _shifted(builder: Builder, codes: Expr, by: int, wide: DType, dtype: DType) -> Expr:
    raised = builder.call("cast", codes, attrs=CastAttrs(dtype=wide))
    moved = builder.call("add", raised, builder.constant(np.array(by, wide.numpy)))
    return builder.call("cast", moved, attrs=CastAttrs(dtype=dtype))
