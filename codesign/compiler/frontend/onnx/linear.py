"""Importers of matrix products."""

from __future__ import annotations

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.ir.relay.expr import Constant, Expr
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.transpose import TransposeAttrs

_SWAP = TransposeAttrs(axes=(1, 0))


def gemm(node: Node, builder: Builder) -> Expr:
    """Import Gemm: alpha A B + beta C, where A and B may be transposed and C broadcasts."""
    data, weight = node.input(0), node.input(1)
    if node.integer("transA", 0):
        data = builder.call("transpose", data, attrs=_SWAP)
    if not node.integer("transB", 0):
        weight = _transposed(builder, weight)
    product = builder.call("nn.dense", data, weight)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if alpha != 1.0:
        product = builder.call("multiply", product, builder.scalar(alpha, product))
    bias = node.optional(2)
    if bias is None or beta == 0.0:
        return product
    if beta != 1.0:
        bias = builder.call("multiply", bias, builder.scalar(beta, bias))
    if builder.shape_of(bias) == builder.shape_of(product)[1:]:
        return builder.call("nn.bias_add", product, bias, attrs=BiasAddAttrs(axis=1))
    return builder.call("add", product, bias)


def matmul(node: Node, builder: Builder) -> Expr:
    """Import MatMul; a constant matrix on the right makes it nn.dense."""
    left, right = node.input(0), node.input(1)
    left_rank, right_rank = len(builder.shape_of(left)), len(builder.shape_of(right))
    if left_rank == 0 or right_rank == 0:
        raise node.malformed("a scalar is no matrix")
    if left_rank >= 2 and right_rank == 2 and isinstance(right, Constant):
        return builder.call("nn.dense", left, _transposed(builder, right))
    if left_rank == 1 or right_rank == 1:
        raise node.unsupported("an operand is a vector")
    return builder.call("nn.matmul", left, right)


def _transposed(builder: Builder, weight: Expr) -> Expr:
    """Swap the axes of a matrix; a constant is swapped now, whatever its size."""
    if isinstance(weight, Constant):
        swapped = builder.constant(weight.value.T.copy())
        source = builder.codes.get(weight)
        if source is not None:
            axis = None if source.axis is None else 1 - source.axis
            builder.codes[swapped] = source.moved(_transposed(builder, source.codes), axis)
        return swapped
    return builder.call("transpose", weight, attrs=_SWAP)
