"""Importers of operators that cut, join, repeat and pad tensors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Final, Literal

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.ir.relay.expr import Expr
from codesign.ops.axis import AxisAttrs
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.split import SplitAttrs
from codesign.ops.strided_slice import StridedSliceAttrs

_MODES: Final[Mapping[str, Literal["constant", "reflect", "edge"]]] = {
    "constant": "constant",
    "reflect": "reflect",
    "edge": "edge",
}


def concat(node: Node, builder: Builder) -> Expr:
    """Import Concat."""
    parts = node.present()
    rank = len(builder.shape_of(parts[0]))
    axis = node.axis(node.integer("axis", 0), rank)
    if len(parts) == 1:
        return parts[0]
    return builder.call("concatenate", builder.make_tuple(parts), attrs=AxisAttrs(axis=axis))


def split(node: Node, builder: Builder) -> tuple[Expr, ...]:
    """Import Split: into given sizes, or into equal ones of which the last may be smaller."""
    x = node.input(0)
    shape = builder.shape_of(x)
    axis = node.axis(node.integer("axis", 0), len(shape))
    sizes = node.known_ints(1, "sizes") if node.opset >= 13 else node.ints("split")
    if sizes is None:
        count = node.integer("num_outputs", len(node.outputs))
        size = -(-shape[axis] // count)
        sizes = tuple(max(0, min(size, shape[axis] - index * size)) for index in range(count))
    if sum(sizes) != shape[axis] or len(sizes) != len(node.outputs) or min(sizes) < 0:
        raise node.malformed(
            f"sizes {list(sizes)} do not make {len(node.outputs)} parts of {shape[axis]}"
        )
    if len(sizes) == 1:
        return (x,)
    borders = tuple(itertools.accumulate(sizes[:-1]))
    return builder.fields(
        builder.call("split", x, attrs=SplitAttrs(indices_or_sections=borders, axis=axis))
    )


def slice_(node: Node, builder: Builder) -> Expr:
    """Import Slice; bounds are clamped as the specification says."""
    x = node.input(0)
    shape = builder.shape_of(x)
    if node.opset < 10:
        starts, ends, axes, steps = node.ints("starts"), node.ints("ends"), node.ints("axes"), None
    else:
        starts, ends = node.known_ints(1, "starts"), node.known_ints(2, "ends")
        axes, steps = node.known_ints(3, "axes"), node.known_ints(4, "steps")
    if starts is None or ends is None:
        raise node.malformed("its starts or ends are missing")
    axes = node.axes(tuple(range(len(starts))) if axes is None else axes, len(shape))
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise node.malformed("starts, ends, axes and steps do not match, or a step is 0")
    begin, end = [], []
    for start, stop, axis, step in zip(starts, ends, axes, steps, strict=True):
        low, high, _ = slice(start, stop, step).indices(shape[axis])
        begin.append(low)
        # A reversed slice that reaches index 0 ends before the beginning.
        end.append(high if high >= 0 else -shape[axis] - 1)
    if all(
        b == 0 and e == shape[a] and s == 1
        for b, e, a, s in zip(begin, end, axes, steps, strict=True)
    ):
        return x
    attrs = StridedSliceAttrs(
        begin=tuple(begin), end=tuple(end), strides=tuple(steps), axes=tuple(axes)
    )
    return builder.call("strided_slice", x, attrs=attrs)


def pad(node: Node, builder: Builder) -> Expr:
    """Import Pad; negative amounts cut off, reflection must stay inside the axis."""
    x = node.input(0)
    shape = builder.shape_of(x)
    mode = _MODES.get(node.text("mode", "constant"))
    if mode is None:
        raise node.unsupported(f"attribute mode = {node.text('mode', 'constant')!r}")
    if node.opset < 11:
        amounts, value, axes = node.ints("pads"), node.number("value", 0.0), None
    else:
        amounts = node.known_ints(1, "amounts")
        filler = node.known(2, "value")
        value = 0.0 if filler is None else float(filler.reshape(()))
        axes = node.known_ints(3, "axes")
    over = node.axes(tuple(range(len(shape))) if axes is None else axes, len(shape))
    if amounts is None or len(amounts) != 2 * len(over):
        raise node.malformed(f"it needs {2 * len(over)} amounts of padding, not {amounts}")
    width = [(0, 0)] * len(shape)
    for position, axis in enumerate(over):
        width[axis] = (amounts[position], amounts[position + len(over)])
    if mode == "reflect":
        _check_reflection(node, shape, width)
    x, width = _cut(builder, x, shape, width)
    if all(each == (0, 0) for each in width):
        return x
    attrs = PadAttrs(pad_width=tuple(width), mode=mode, value=value)
    return builder.call("nn.pad", x, attrs=attrs)


def _check_reflection(node: Node, shape: tuple[int, ...], width: list[tuple[int, int]]) -> None:
    for axis, (length, amounts) in enumerate(zip(shape, width, strict=True)):
        if max(amounts) > 0 and max(amounts) >= length:
            raise node.malformed(
                f"reflect pads axis {axis} of length {length} by {max(amounts)}; "
                f"reflection needs a pad below the length"
            )


def _cut(
    builder: Builder, x: Expr, shape: tuple[int, ...], width: list[tuple[int, int]]
) -> tuple[Expr, list[tuple[int, int]]]:
    """Cut off what negative amounts say; return what is left to pad."""
    if all(min(each) >= 0 for each in width):
        return x, width
    attrs = StridedSliceAttrs(
        begin=tuple(max(0, -before) for before, _ in width),
        end=tuple(dim - max(0, -after) for dim, (_, after) in zip(shape, width, strict=True)),
        strides=(1,) * len(shape),
        axes=tuple(range(len(shape))),
    )
    left = [(max(0, before), max(0, after)) for before, after in width]
    return builder.call("strided_slice", x, attrs=attrs), left


def expand(node: Node, builder: Builder) -> Expr:
    """Import Expand: broadcasting in both directions."""
    x = node.input(0)
    wanted = node.known_ints(1, "shape")
    if wanted is None:
        raise node.malformed("input 1, the shape, is missing")
    try:
        shape = np.broadcast_shapes(builder.shape_of(x), wanted)
    except ValueError as error:
        raise node.malformed(f"{builder.shape_of(x)} and {wanted} do not broadcast") from error
    if shape == builder.shape_of(x):
        return x
    return builder.call("broadcast_to", x, attrs=BroadcastToAttrs(shape=shape))


def tile(node: Node, builder: Builder) -> Expr:
    """Import Tile: repeat along every axis, by broadcasting a new axis before each."""
    x = node.input(0)
    shape = builder.shape_of(x)
    repeats = node.known_ints(1, "repeats")
    if repeats is None or len(repeats) != len(shape):
        raise node.malformed(f"repeats {repeats} must have a value for each axis of {shape}")
    pairs = list(zip(repeats, shape, strict=True))
    apart = tuple(itertools.chain.from_iterable((1, dim) for _, dim in pairs))
    spread = tuple(itertools.chain.from_iterable(pairs))
    parts = builder.call("reshape", x, attrs=ReshapeAttrs(shape=apart))
    repeated = builder.call("broadcast_to", parts, attrs=BroadcastToAttrs(shape=spread))
    return builder.call(
        "reshape", repeated, attrs=ReshapeAttrs(shape=tuple(math.prod(each) for each in pairs))
    )
