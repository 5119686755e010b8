"""nn.batch_matmul: a product of matrices for each sample.

    result[b, i, j] = sum over k of lhs[b, i, k] * rhs[b, j, k]

`transpose_a` says that the left operand lies as [b, k, i], and `transpose_b`, which is the rule,
that the right one lies as [b, j, k]; else it lies as [b, k, j]. A batch of 1 meets any batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, Type
from codesign.ops.nn.dense import matrix_product
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    HOST_FLOAT,
    NUMBERS,
    attributes,
    broadcast,
    elements,
    mistake,
    require_dtype,
    require_rank,
    require_same_dtype,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class BatchMatmulAttrs(Attrs):
    """Which operands lie with their rows and columns swapped."""

    transpose_a: bool = False
    transpose_b: bool = True


def _lengths(tensor: TensorType, is_swapped: bool) -> tuple[Dim, Dim]:
    """Return rows and columns of the matrices as they are multiplied."""
    _, first, second = tensor.shape
    return (second, first) if is_swapped else (first, second)


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    lhs, rhs = tensors(call, types, 2)
    attrs = attributes(call, BatchMatmulAttrs)
    require_rank(call, lhs, 3, "a left operand")
    require_rank(call, rhs, 3, "a right operand")
    require_dtype(call, lhs, NUMBERS, "left operand")
    require_same_dtype(call, (lhs, rhs))
    rows, inner = _lengths(lhs, attrs.transpose_a)
    other, columns = _lengths(rhs, attrs.transpose_b)
    if inner != other and UNKNOWN not in (inner, other):
        raise mistake(
            call,
            "reduces over axes of different length",
            f"the left operand has {inner}, the right one {other}",
        )
    (batch,) = broadcast(call, [lhs.shape[:1], rhs.shape[:1]])
    return TensorType((batch, rows, columns), lhs.dtype)


@ieee
def _reference(lhs: Array, rhs: Array, attrs: BatchMatmulAttrs) -> Array:
    left = np.swapaxes(lhs, 1, 2) if attrs.transpose_a else lhs
    right = np.swapaxes(rhs, 1, 2) if attrs.transpose_b else rhs
    return matrix_product(left, right)


def _work(call: Call, types: tuple[Type, ...], result: Type) -> int:
    lhs = types[0]
    assert isinstance(lhs, TensorType), "the relation has seen to it"
    _, inner = _lengths(lhs, attributes(call, BatchMatmulAttrs).transpose_a)
    assert isinstance(inner, int), "work is counted where lengths are known"
    return 2 * elements(result) * inner


OPERATOR: Final = Operator(
    name="nn.batch_matmul",
    attrs=BatchMatmulAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.ANCHOR,
    accel=NotOnAccelerator(HOST_FLOAT),
    work=_work,
)
