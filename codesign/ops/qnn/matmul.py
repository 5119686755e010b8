"""qnn.matmul: product of two stacks of int8 matrices, each less its zero point, lz and rz.

    result[..., n, m] = sum over k of (lhs[..., n, k] - lz) * (rhs[..., k, m] - rz)

Leading axes broadcast. Sums are int32, exact modulo 2**32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.accel.arithmetic import wrap
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.dense import matmul_shape, product_work
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.qnn.limits import require_int8, require_zero_point
from codesign.ops.relations import attributes, static_tensors


@final
@dataclass(frozen=True, kw_only=True)
class QMatmulAttrs(Attrs):
    """Zero points of both operands."""

    lhs_zero_point: int = 0
    rhs_zero_point: int = 0


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    lhs, rhs = static_tensors(call, types, 2)
    attrs = attributes(call, QMatmulAttrs)
    require_int8(call, lhs, "left operand")
    require_int8(call, rhs, "right operand")
    require_zero_point(call, attrs.lhs_zero_point)
    require_zero_point(call, attrs.rhs_zero_point)
    return TensorType(matmul_shape(call, lhs, rhs), DType.INT32)


def _reference(lhs: Array, rhs: Array, attrs: QMatmulAttrs) -> Array:
    left = lhs.astype(np.float64) - attrs.lhs_zero_point
    right = rhs.astype(np.float64) - attrs.rhs_zero_point
    return wrap(np.matmul(left, right), DType.INT32.bits).astype(np.int32)


OPERATOR: Final = Operator(
    name="qnn.matmul",
    attrs=QMatmulAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ANCHOR,
    accel=OnUnit("gemm"),
    work=product_work,
)
