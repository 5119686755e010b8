"""Importers of elementwise arithmetic, comparisons and casts."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.compiler.frontend.onnx.tensors import element_type, type_name
from codesign.ir.relay.expr import Expr
from codesign.ops.cast import CastAttrs

Importer = Callable[[Node, Builder], Expr]


def renamed(name: str, arity: int) -> Importer:
    """Return the importer of an operator that is ours under another name, without attributes."""

    def convert(node: Node, builder: Builder) -> Expr:
        return builder.call(name, *(node.input(index) for index in range(arity)))

    return convert


def variadic(name: str) -> Importer:
    """Return the importer of an operator of any number of inputs, taken from the left."""

    def convert(node: Node, builder: Builder) -> Expr:
        first, *others = node.present()
        for other in others:
            first = builder.call(name, first, other)
        return first

    return convert


def mean(node: Node, builder: Builder) -> Expr:
    """Import Mean: the sum of all inputs, divided once."""
    total = variadic("add")(node, builder)
    return builder.call("divide", total, builder.scalar(len(node.inputs), total))


def reciprocal(node: Node, builder: Builder) -> Expr:
    """Import Reciprocal."""
    x = node.input(0)
    return builder.call("divide", builder.scalar(1.0, x), x)


def identity(node: Node, builder: Builder) -> Expr:
    """Import Identity."""
    return node.input(0)


def dropout(node: Node, builder: Builder) -> Expr:
    """Import Dropout, which does nothing outside training whatever its ratio."""
    if any(node.outputs[1:]):
        raise node.unsupported("its mask is asked for")
    training = node.known(2, "training mode")
    if training is not None and bool(training.reshape(())):
        raise node.unsupported("input training_mode is true")
    return node.input(0)


def cast(node: Node, builder: Builder) -> Expr:
    """Import Cast."""
    code = node.integer("to", onnx.TensorProto.UNDEFINED)
    dtype = element_type(code)
    if dtype is None:
        raise node.unsupported(f"it casts to {type_name(code)}")
    x = node.input(0)
    if builder.dtype_of(x) is dtype:
        return x
    return builder.call("cast", x, attrs=CastAttrs(dtype=dtype))


def power(node: Node, builder: Builder) -> Expr:
    """Import Pow; the exponent takes the element type of the base."""
    base, exponent = node.input(0), node.input(1)
    if builder.dtype_of(exponent) is not builder.dtype_of(base):
        attrs = CastAttrs(dtype=builder.dtype_of(base))
        exponent = builder.call("cast", exponent, attrs=attrs)
    return builder.call("power", base, exponent)
