"""Importers of operators that keep the elements and their order, or permute axes."""

from __future__ import annotations

import math

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.ir.relay.expr import Expr
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.transpose import TransposeAttrs


def _reshaped(builder: Builder, x: Expr, shape: tuple[int, ...]) -> Expr:
    if builder.shape_of(x) == shape:
        return x
    return builder.call("reshape", x, attrs=ReshapeAttrs(shape=shape))


def reshape(node: Node, builder: Builder) -> Expr:
    """Import Reshape: 0 keeps a dimension (unless `allowzero`), -1 takes what is left."""
    x = node.input(0)
    wanted = node.known_ints(1, "shape")
    if wanted is None:
        raise node.malformed("input 1, the shape, is missing")
    old = builder.shape_of(x)
    shape = list(wanted)
    if not node.integer("allowzero", 0):
        if any(dim == 0 and axis >= len(old) for axis, dim in enumerate(wanted)):
            raise node.malformed(f"shape {list(wanted)} keeps a dimension that {old} lacks")
        shape = [old[axis] if dim == 0 else dim for axis, dim in enumerate(wanted)]
    if shape.count(-1) > 1 or any(dim < -1 for dim in shape):
        raise node.malformed(f"shape {list(wanted)} has more than one unknown dimension")
    count = math.prod(old)
    if -1 in shape:
        rest = math.prod(dim for dim in shape if dim != -1)
        if rest == 0 or count % rest:
            raise node.malformed(f"{count} elements of {old} do not fit shape {list(wanted)}")
        shape[shape.index(-1)] = count // rest
    if math.prod(shape) != count:
        raise node.malformed(f"{count} elements of {old} do not fit shape {list(wanted)}")
    return _reshaped(builder, x, tuple(shape))


def flatten(node: Node, builder: Builder) -> Expr:
    """Import Flatten: a matrix of what lies before and after `axis`."""
    x = node.input(0)
    shape = builder.shape_of(x)
    axis = node.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise node.malformed(f"axis {axis} is not within [{-len(shape)}, {len(shape)}]")
    axis = axis + len(shape) if axis < 0 else axis
    return _reshaped(builder, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def _axes(node: Node) -> tuple[int, ...] | None:
    """Return axes that are an attribute before opset 13 and an input from then on."""
    return node.known_ints(1, "axes") if node.opset >= 13 else node.ints("axes")


def squeeze(node: Node, builder: Builder) -> Expr:
    """Import Squeeze; without axes it removes every dimension of 1."""
    x = node.input(0)
    shape = builder.shape_of(x)
    axes = _axes(node)
    if axes is None:
        gone = tuple(axis for axis, dim in enumerate(shape) if dim == 1)
    else:
        gone = node.axes(axes, len(shape))
    if any(shape[axis] != 1 for axis in gone):
        raise node.malformed(f"axes {list(gone)} of {shape} are not all of length 1")
    return _reshaped(builder, x, tuple(d for axis, d in enumerate(shape) if axis not in gone))


def unsqueeze(node: Node, builder: Builder) -> Expr:
    """Import Unsqueeze; negative axes count from the end of the result."""
    x = node.input(0)
    axes = _axes(node)
    if axes is None:
        raise node.malformed("its axes are missing")
    rest = list(builder.shape_of(x))
    for axis in sorted(node.axes(axes, len(rest) + len(axes))):
        rest.insert(axis, 1)
    return _reshaped(builder, x, tuple(rest))


def transpose(node: Node, builder: Builder) -> Expr:
    """Import Transpose; without `perm` the axes are reversed."""
    x = node.input(0)
    rank = len(builder.shape_of(x))
    axes = node.ints("perm")
    axes = tuple(reversed(range(rank))) if axes is None else axes
    if sorted(axes) != list(range(rank)):
        raise node.malformed(f"perm {list(axes)} is no permutation of {rank} axes")
    if axes == tuple(range(rank)):
        return x
    return builder.call("transpose", x, attrs=TransposeAttrs(axes=axes))


def depth_to_space(node: Node, builder: Builder) -> Expr:
    """Import DepthToSpace: channels become a block of pixels, in order DCR or CRD."""
    x = node.input(0)
    n, c, h, w = builder.shape_of(x)
    block = node.integer("blocksize", 0)
    if block < 1 or c % (block * block):
        raise node.malformed(f"blocksize {block} does not divide {c} channels")
    depth = c // (block * block)
    if node.text("mode", "DCR") == "DCR":
        split, order = (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3)
    parts = builder.call("reshape", x, attrs=ReshapeAttrs(shape=split))
    moved = builder.call("transpose", parts, attrs=TransposeAttrs(axes=order))
    return _reshaped(builder, moved, (n, depth, h * block, w * block))
