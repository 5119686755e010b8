"""qnn.dense: product of integers less their zero point with a transposed integer weight.

    result[n, m] = sum over k of (data[n, k] - zero_point) * weight[m, k]

Data and weight are int8 or int16. Sums are exact modulo 2**32, or modulo 2**16 where `dtype` is
int16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.accel.arithmetic import wrap
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.dense import dense_shape, product_work
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.qnn.limits import require_sums, require_zero_point
from codesign.ops.relations import attributes, require_rank, static_tensors


@final
@dataclass(frozen=True, kw_only=True)
class QDenseAttrs(Attrs):
    """The zero point of the data (that of the weight is 0) and the element type of the sums."""

    zero_point: int = 0
    dtype: DType = DType.INT32


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, weight = static_tensors(call, types, 2)
    attrs = attributes(call, QDenseAttrs)
    require_rank(call, data, 2, "data")
    require_rank(call, weight, 2, "a weight")
    require_sums(call, data, weight, attrs.dtype)
    require_zero_point(call, attrs.zero_point, data.dtype)
    return TensorType(dense_shape(call, data.static_shape, weight.static_shape), attrs.dtype)


def _reference(data: Array, weight: Array, attrs: QDenseAttrs) -> Array:
    exact = np.matmul(data.astype(np.float64) - attrs.zero_point, weight.astype(np.float64).T)
    return wrap(exact, attrs.dtype.bits).astype(attrs.dtype.numpy)


OPERATOR: Final = Operator(
    name="qnn.dense",
    attrs=QDenseAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ANCHOR,
    accel=OnUnit("gemm"),
    work=product_work,
)
