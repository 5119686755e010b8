"""Importers of Resize and Upsample.

Where the scale is the ratio of the sizes they are image.resize2d. Otherwise (a scale whose product
with the size is no integer, other coordinates) nearest neighbours are a `take` along each axis, and
linear interpolation is a product with a matrix on each side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

import numpy as np

from codesign.compiler.frontend.onnx.builder import Builder
from codesign.compiler.frontend.onnx.node import Node
from codesign.dtypes import Array
from codesign.ir.relay.expr import Expr
from codesign.ops.axis import AxisAttrs
from codesign.ops.image.resize2d import ResizeAttrs

_METHODS: Final[Mapping[str, Literal["nearest_neighbor", "linear"]]] = {
    "nearest": "nearest_neighbor",
    "linear": "linear",
    "bilinear": "linear",
}
_COORDINATES: Final[Mapping[str, Literal["half_pixel", "asymmetric", "align_corners"]]] = {
    "half_pixel": "half_pixel",
    "asymmetric": "asymmetric",
    "align_corners": "align_corners",
}
_ROUNDINGS: Final[
    Mapping[str, Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]]
] = {
    "round_prefer_floor": "round_prefer_floor",
    "round_prefer_ceil": "round_prefer_ceil",
    "floor": "floor",
    "ceil": "ceil",
}


def upsample(node: Node, builder: Builder) -> Expr:
    """Import Upsample, which is Resize with asymmetric coordinates rounded down."""
    shape = builder.shape_of(node.input(0))
    scales = node.known(1, "scales")
    if scales is None:
        raise node.unsupported("scales as an attribute (before opset 9)")
    factors = tuple(float(each) for each in scales)
    sizes = tuple(math.floor(dim * each) for dim, each in zip(shape, factors, strict=True))
    return _resize(
        node, builder, sizes, factors, node.text("mode", "nearest"), "asymmetric", "floor"
    )


def resize(node: Node, builder: Builder) -> Expr:
    """Import Resize of height and width, nearest or linear."""
    shape = builder.shape_of(node.input(0))
    first = 1 if node.opset < 11 else 2
    scales = node.known(first, "scales")
    wanted = node.known_ints(3, "sizes") if node.opset >= 11 else None
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch" or node.ints("axes"):
        raise node.unsupported("attributes axes or keep_aspect_ratio_policy")
    if node.integer("antialias", 0):
        raise node.unsupported("attribute antialias = 1")
    if wanted:
        sizes = wanted
        factors = tuple(new / old for new, old in zip(wanted, shape, strict=True))
    elif scales is not None and scales.size:
        factors = tuple(float(each) for each in scales)
        sizes = tuple(math.floor(dim * each) for dim, each in zip(shape, factors, strict=True))
    else:
        raise node.malformed("neither scales nor sizes are given")
    if node.opset < 11:
        coordinates, rounding = "asymmetric", "floor"
    else:
        coordinates = node.text("coordinate_transformation_mode", "half_pixel")
        rounding = node.text("nearest_mode", "round_prefer_floor")
    mode = node.text("mode", "nearest")
    return _resize(node, builder, sizes, factors, mode, coordinates, rounding)


def _resize(
    node: Node,
    builder: Builder,
    sizes: tuple[int, ...],
    factors: tuple[float, ...],
    mode: str,
    coordinates: str,
    rounding: str,
) -> Expr:
    x = node.input(0)
    shape = builder.shape_of(x)
    if len(shape) != 4 or sizes[:2] != shape[:2]:
        raise node.unsupported(f"it resizes {shape} to {sizes}; only height and width may change")
    if rounding in _ROUNDINGS and mode in _METHODS and coordinates in _COORDINATES:
        ratios = (sizes[axis] / shape[axis] for axis in (2, 3))
        if all(ratio == factor for ratio, factor in zip(ratios, factors[2:], strict=True)):
            attrs = ResizeAttrs(
                size=(sizes[2], sizes[3]),
                method=_METHODS[mode],
                coordinate_transformation_mode=_COORDINATES[coordinates],
                rounding_method=_ROUNDINGS[rounding],
            )
            return builder.call("image.resize2d", x, attrs=attrs)
    places = [
        _places(node, shape[axis], sizes[axis], factors[axis], coordinates) for axis in (2, 3)
    ]
    match mode:
        case "nearest":
            for axis, place in zip((2, 3), places, strict=True):
                indices = np.clip(_rounded(node, place, rounding), 0, shape[axis] - 1)
                if not np.array_equal(indices, np.arange(shape[axis])):
                    picked = builder.constant(indices.astype(np.int64))
                    x = builder.call("take", x, picked, attrs=AxisAttrs(axis=axis))
            return x
        case "linear" | "bilinear":
            rows, columns = (
                builder.constant(_interpolation(place, shape[axis]))
                for axis, place in zip((2, 3), places, strict=True)
            )
            return builder.call("nn.dense", builder.call("nn.matmul", rows, x), columns)
        case _:
            raise node.unsupported(f"attribute mode = {mode!r}")


def _places(node: Node, old: int, new: int, factor: float, coordinates: str) -> Array:
    """Return, for every element of the result, where in the input it lies."""
    index = np.arange(new, dtype=np.float64)
    match coordinates:
        case "half_pixel":
            return (index + 0.5) / factor - 0.5
        case "pytorch_half_pixel":
            return (index + 0.5) / factor - 0.5 if new > 1 else np.zeros(1)
        case "align_corners":
            return index * (old - 1) / (new - 1) if new > 1 else np.zeros(1)
        case "asymmetric":
            return index / factor
        case _:
            raise node.unsupported(f"attribute coordinate_transformation_mode = {coordinates!r}")


def _rounded(node: Node, places: Array, rounding: str) -> Array:
    match rounding:
        case "round_prefer_floor":
            return np.asarray(np.ceil(places - 0.5))
        case "round_prefer_ceil":
            return np.asarray(np.floor(places + 0.5))
        case "floor":
            return np.asarray(np.floor(places))
        case "ceil":
            return np.asarray(np.ceil(places))
        case _:
            raise node.malformed(f"nearest_mode is {rounding!r}")


def _interpolation(places: Array, length: int) -> Array:
    """Return the matrix [new, old] that takes linear steps between neighbours."""
    inside = np.clip(places, 0, length - 1)
    left = np.minimum(np.floor(inside).astype(np.int64), max(length - 2, 0))
    share = inside - left
    rows = np.arange(len(places))
    matrix = np.zeros((len(places), length), np.float32)
    np.add.at(matrix, (rows, left), 1 - share)
    np.add.at(matrix, (rows, np.minimum(left + 1, length - 1)), share)
    return matrix
