"""Importers of operators whose value is known at import: constants and questions about shapes."""

from __future__ import annotations

import math

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.ir.relay.expr import Expr

LARGEST_CONSTANT_ELEMENTS = 1 << 26


def constant(node: Node, builder: Builder) -> Expr:
    """Import Constant in any of its spellings."""
    match dict(node.attributes):
        case {"value": np.ndarray() as value}:
            return builder.constant(value)
        case {"value_float": float() as number}:
            return builder.constant(np.array(number, np.float32))
        case {"value_int": int() as number}:
            return builder.constant(np.array(number, np.int64))
        case {"value_floats": tuple() as numbers}:
            return builder.constant(np.array(numbers, np.float32))
        case {"value_ints": tuple() as numbers}:
            return builder.constant(np.array(numbers, np.int64))
        case others:
            raise node.unsupported(f"a constant given by {', '.join(others) or 'nothing'}")


def constant_of_shape(node: Node, builder: Builder) -> Expr:
    """Import ConstantOfShape; its default is float32 zero."""
    shape = node.known_ints(0, "shape")
    if shape is None or math.prod(shape) > LARGEST_CONSTANT_ELEMENTS or min(shape, default=0) < 0:
        raise node.malformed(f"shape {shape} is missing, negative or too large")
    value = node.attributes.get("value", np.zeros(1, np.float32))
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise node.malformed("attribute 'value' must be a tensor of one element")
    return builder.constant(np.full(shape, value.reshape(())))


def shape(node: Node, builder: Builder) -> Expr:
    """Import Shape; every shape is known here."""
    dims = builder.shape_of(node.input(0))
    start, end = node.integer("start", 0), node.integer("end", len(dims))
    return builder.constant(np.array(dims[slice(start, end)], np.int64))


def size(node: Node, builder: Builder) -> Expr:
    """Import Size."""
    return builder.constant(np.array(math.prod(builder.shape_of(node.input(0))), np.int64))


def range_(node: Node, builder: Builder) -> Expr:
    """Import Range of known bounds."""
    bounds = [node.known(index, name) for index, name in enumerate(("start", "limit", "delta"))]
    start, limit, delta = (each.reshape(()) for each in bounds if each is not None)
    if delta == 0 or abs((limit - start) / delta) > LARGEST_CONSTANT_ELEMENTS:
        raise node.malformed(f"a range from {start} to {limit} by {delta}")
    count = max(0, math.ceil((limit - start) / delta))
    return builder.constant((start + np.arange(count) * delta).astype(start.dtype))
