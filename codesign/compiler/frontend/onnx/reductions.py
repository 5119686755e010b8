"""Importers of reductions."""

from __future__ import annotations

from collections.abc import Callable

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.ir.relay.expr import Expr
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs

_AXES_AS_INPUT = {"ReduceSum": 13}
"""Since which opset the axes are an input; 18 for all others."""


def reduction(name: str) -> Callable[[Node, Builder], Expr]:
    """Return the importer of a reduction that is ours under another name."""

    def convert(node: Node, builder: Builder) -> Expr:
        x = node.input(0)
        return _reduce(node, builder, name, x)

    return convert


def reduce_l2(node: Node, builder: Builder) -> Expr:
    """Import ReduceL2: the root of the sum of squares."""
    x = node.input(0)
    square = builder.call("multiply", x, x)
    return builder.call("sqrt", _reduce(node, builder, "sum", square))


def argmax(node: Node, builder: Builder) -> Expr:
    """Import ArgMax; its result is int64."""
    x = node.input(0)
    attrs = ArgReduceAttrs(
        axis=node.axis(node.integer("axis", 0), len(builder.shape_of(x))),
        keepdims=bool(node.integer("keepdims", 1)),
        select_last_index=bool(node.integer("select_last_index", 0)),
    )
    return builder.call("argmax", x, attrs=attrs)


def _reduce(node: Node, builder: Builder, name: str, x: Expr) -> Expr:
    rank = len(builder.shape_of(x))
    if node.opset >= _AXES_AS_INPUT.get(node.operator, 18):
        axes = node.known_ints(1, "axes")
        if not axes and node.integer("noop_with_empty_axes", 0):
            return x
    else:
        axes = node.ints("axes")
    over = node.axes(axes, rank) if axes else tuple(range(rank))
    attrs = ReduceAttrs(axis=over, keepdims=bool(node.integer("keepdims", 1)))
    return builder.call(name, x, attrs=attrs)
