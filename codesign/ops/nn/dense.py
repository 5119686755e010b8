"""nn.dense and nn.matmul: products of matrices.

    nn.dense:  result[..., m]    = sum over k of data[..., k] * weight[m, k]
    nn.matmul: result[..., i, j] = sum over k of lhs[..., i, k] * rhs[..., k, j]

The leading axes of nn.matmul broadcast. Floating-point sums may be taken in any order; a sum of no
products is zero. Those of float16 are summed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, Type
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_FLOAT,
    NUMBERS,
    broadcast,
    elements,
    mistake,
    require_dtype,
    require_rank,
    require_same_dtype,
    spelled,
    static_tensors,
    tensors,
)


def dense_shape(call: Call, data: tuple[Dim, ...], weight: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return the shape of data @ weight.T; refuse axes of different length, `?` fits any."""
    if not data or (data[-1] != weight[1] and UNKNOWN not in (data[-1], weight[1])):
        columns = data[-1] if data else "no"
        raise mistake(
            call,
            "reduces over axes of different length",
            f"data has {columns} columns, weight has {weight[1]}",
            help="nn.dense computes data @ weight.T; transpose the weight",
        )
    return (*data[:-1], weight[0])


def matrix_product(lhs: Array, rhs: Array) -> Array:
    """Return the product of matrices; sums of float16 are taken in float32 and rounded once."""
    if lhs.dtype == np.float16:
        wide = np.matmul(lhs.astype(np.float32), rhs.astype(np.float32))
        return np.asarray(wide).astype(np.float16)
    return np.asarray(np.matmul(lhs, rhs))


def _dense_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, weight = tensors(call, types, 2)
    require_rank(call, weight, 2, "a weight")
    require_dtype(call, data, NUMBERS, "data")
    require_same_dtype(call, (data, weight))
    return TensorType(dense_shape(call, data.shape, weight.shape), data.dtype)


@ieee
def _dense(data: Array, weight: Array) -> Array:
    return matrix_product(data, weight.T)


def _matmul_relation(call: Call, types: tuple[Type, ...]) -> Type:
    lhs, rhs = static_tensors(call, types, 2)
    require_dtype(call, lhs, NUMBERS, "left operand")
    require_same_dtype(call, (lhs, rhs))
    return TensorType(matmul_shape(call, lhs, rhs), lhs.dtype)


def matmul_shape(call: Call, lhs: TensorType, rhs: TensorType) -> tuple[Dim, ...]:
    """Return the shape of a product of two stacks of matrices; refuse what has none."""
    left, right = lhs.static_shape, rhs.static_shape
    if len(left) < 2 or len(right) < 2:
        raise mistake(call, "takes matrices", f"found {spelled(lhs)} and {spelled(rhs)}")
    if left[-1] != right[-2]:
        raise mistake(
            call,
            "reduces over axes of different length",
            f"left operand has {left[-1]} columns, right operand has {right[-2]} rows",
        )
    batch = broadcast(call, [left[:-2], right[:-2]])
    return (*batch, left[-2], right[-1])


@ieee
def _matmul(lhs: Array, rhs: Array) -> Array:
    return matrix_product(lhs, rhs)


def product_work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    """Return two operations, a product and a sum, for each k of each result."""
    data = types[0]
    assert isinstance(data, TensorType), "the relation has seen to it"
    return 2 * elements(result) * data.static_shape[-1]


OPERATORS: Final = tuple(
    Operator(
        name=name,
        relation=relation,
        reference=reference,
        fusion=Fusion.ANCHOR,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=product_work,
    )
    for name, relation, reference in (
        ("nn.dense", _dense_relation, _dense),
        ("nn.matmul", _matmul_relation, _matmul),
    )
)
"""Every operator of this file."""
