"""image.resize2d: another height and width by nearest neighbour or linear interpolation, NCHW.

The place x of a result along an axis comes from a place of the data:

    half_pixel    (x + 0.5) * size / new_size - 0.5
    asymmetric    x * size / new_size
    align_corners x * (size - 1) / (new_size - 1)

computed in float64. `rounding_method` says which neighbour is nearest; places outside the data are
moved to the edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.window import Pair
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    FLOATS,
    HOST_MOVES,
    NUMBERS,
    attributes,
    mistake,
    per_element,
    require_dtype,
    require_positive,
    require_rank,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class ResizeAttrs(Attrs):
    """The new height and width, and how its elements are found."""

    size: Pair
    method: Literal["nearest_neighbor", "linear"] = "linear"
    coordinate_transformation_mode: Literal["half_pixel", "asymmetric", "align_corners"] = (
        "half_pixel"
    )
    rounding_method: Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] = (
        "round_prefer_floor"
    )


def source_places(attrs: ResizeAttrs, axis: int, size: int) -> Array:
    """Return the place in the data, in float64, of each result along height (0) or width (1)."""
    new_size = attrs.size[axis]
    places = np.arange(new_size, dtype=np.float64)
    match attrs.coordinate_transformation_mode:
        case "half_pixel":
            return np.asarray((places + 0.5) * size / new_size - 0.5)
        case "asymmetric":
            return np.asarray(places * size / new_size)
        case "align_corners":
            return np.asarray(places * (size - 1) / max(new_size - 1, 1))


def nearest(attrs: ResizeAttrs, places: Array, size: int) -> Array:
    """Return the index of the nearest element of each place."""
    match attrs.rounding_method:
        case "round_prefer_floor":
            index = np.ceil(places - 0.5)
        case "round_prefer_ceil":
            index = np.floor(places + 0.5)
        case "floor":
            index = np.floor(places)
        case "ceil":
            index = np.ceil(places)
    return np.clip(index, 0, size - 1).astype(np.int64)


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, ResizeAttrs)
    require_rank(call, data, 4, "data")
    require_dtype(call, data, NUMBERS if attrs.method == "nearest_neighbor" else FLOATS, "data")
    require_positive(call, attrs.size, "size")
    if 0 in data.static_shape[2:]:
        raise mistake(call, "has no elements to take from", f"shape {list(data.shape)}")
    return TensorType((*data.shape[:2], *attrs.size), data.dtype)


def _linear(data: Array, axis: int, places: Array) -> Array:
    size = data.shape[axis]
    clipped = np.clip(places, 0, size - 1)
    low = np.floor(clipped).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    share = (clipped - low).reshape([-1 if each == axis else 1 for each in range(4)])
    lower, upper = np.take(data, low, axis=axis), np.take(data, high, axis=axis)
    return np.asarray(lower * (1 - share) + upper * share)


def _reference(data: Array, attrs: ResizeAttrs) -> Array:
    height, width = data.shape[2:]
    rows, columns = source_places(attrs, 0, height), source_places(attrs, 1, width)
    if attrs.method == "nearest_neighbor":
        by_row = np.take(data, nearest(attrs, rows, height), axis=2)
        return np.asarray(np.take(by_row, nearest(attrs, columns, width), axis=3))
    return _linear(_linear(data.astype(np.float64), 2, rows), 3, columns).astype(data.dtype)


OPERATOR: Final = Operator(
    name="image.resize2d",
    attrs=ResizeAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.INJECTIVE,
    accel=NotOnAccelerator(HOST_MOVES),
    work=per_element(6),
)
