"""Importers of indexing by tensors; known indices are checked at import."""

from __future__ import annotations

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.ir.relay.expr import Constant, Expr
from codesign.ops.axis import AxisAttrs


def gather(node: Node, builder: Builder) -> Expr:
    """Import Gather; an index i in [-s, -1] means i + s."""
    x, indices = node.input(0), node.input(1)
    shape = builder.shape_of(x)
    axis = node.axis(node.integer("axis", 0), len(shape))
    _check(node, indices, shape[axis])
    return builder.call("take", x, indices, attrs=AxisAttrs(axis=axis))


def gather_elements(node: Node, builder: Builder) -> Expr:
    """Import GatherElements."""
    x, indices = node.input(0), node.input(1)
    shape = builder.shape_of(x)
    axis = node.axis(node.integer("axis", 0), len(shape))
    _check(node, indices, shape[axis])
    return builder.call("gather_elements", x, indices, attrs=AxisAttrs(axis=axis))


def gather_nd(node: Node, builder: Builder) -> Expr:
    """Import GatherND without batch dimensions."""
    if node.integer("batch_dims", 0):
        raise node.unsupported(f"attribute batch_dims = {node.integer('batch_dims', 0)}")
    return builder.call("gather_nd", node.input(0), node.input(1))


def _check(node: Node, indices: Expr, length: int) -> None:
    if not isinstance(indices, Constant):
        return
    wrong = indices.value[(indices.value < -length) | (indices.value >= length)]
    if np.size(wrong):
        raise node.malformed(
            f"index {int(wrong.reshape(-1)[0])} is not within [{-length}, {length - 1}]"
        )
