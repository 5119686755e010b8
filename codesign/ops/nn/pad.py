"""nn.pad: elements added before and after each axis.

constant: `pad_value`; negative widths remove elements
edge:     the nearest element
reflect:  mirrored at the first and the last element, which are not repeated; a width must be less
          than the axis is long
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.nn.window import Pair, pad_constant
from codesign.ops.operator import Fusion, OnUnit, Operator
from codesign.ops.relations import attributes, mistake, no_work, static_tensors


@final
@dataclass(frozen=True, kw_only=True)
class PadAttrs(Attrs):
    """How many elements before and after each axis, and what they are."""

    pad_width: tuple[Pair, ...]
    mode: Literal["constant", "reflect", "edge"] = field(
        default="constant", metadata={"text": "pad_mode"}
    )
    value: float = field(default=0.0, metadata={"text": "pad_value"})


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, PadAttrs)
    shape = data.static_shape
    if len(attrs.pad_width) != len(shape):
        raise mistake(
            call,
            "needs two widths for each axis",
            f"{len(attrs.pad_width)} pairs for a tensor of rank {len(shape)}",
        )
    for axis, length in enumerate(shape):
        _check_axis(call, attrs, axis, length)
    padded = tuple(
        length + before + after
        for length, (before, after) in zip(shape, attrs.pad_width, strict=True)
    )
    return TensorType(padded, data.dtype)


def _check_axis(call: Call, attrs: PadAttrs, axis: int, length: int) -> None:
    before, after = attrs.pad_width[axis]
    place = f"axis {axis} of length {length}, widths {before} and {after}"
    match attrs.mode:
        case "constant":
            if length + min(before, 0) + min(after, 0) < 0:
                raise mistake(call, "removes more elements than there are", place)
        case "reflect":
            if min(before, after) < 0 or max(before, after) > max(length - 1, 0):
                raise mistake(
                    call, "in mode reflect needs widths of 0 up to less than the length", place
                )
        case "edge":
            if min(before, after) < 0 or (length == 0 and max(before, after) > 0):
                raise mistake(call, "in mode edge needs widths of 0 or more and an edge", place)
        case unknown:
            raise mistake(call, "has no such mode", f"found {unknown!r}")


def _reference(data: Array, attrs: PadAttrs) -> Array:
    if attrs.mode == "constant":
        return pad_constant(data, attrs.pad_width, attrs.value)
    return np.pad(data, attrs.pad_width, mode=attrs.mode)


OPERATOR: Final = Operator(
    name="nn.pad",
    attrs=PadAttrs,
    relation=_relation,
    reference=_reference,
    fusion=Fusion.INJECTIVE,
    accel=OnUnit("vector"),
    work=no_work,
)
