"""stack, tile, repeat and reverse: tensors side by side, and elements again or the other way round.

    stack((%a, %b), axis=1)        a new axis with a place for each tensor
    tile(%x, reps=[2, 3])          the whole again and again along each axis
    repeat(%x, repeats=2, axis=0)  each element again and again along an axis
    reverse(%x, axis=0)            from the last element to the first along an axis

`reps` are aligned at the last axis: the shorter of shape and `reps` gets ones in front.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator, Reference, Relation
from codesign.ops.relations import (
    HOST_MOVES,
    attributes,
    mistake,
    no_work,
    normal_axis,
    require_same_dtype,
    spelled,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class TileAttrs(Attrs):
    """How often the tensor stands along each axis."""

    reps: tuple[int, ...]


@final
@dataclass(frozen=True, kw_only=True)
class RepeatAttrs(Attrs):
    """How often each element stands along an axis."""

    repeats: int
    axis: int


def _times(dim: Dim, count: int) -> Dim:
    return UNKNOWN if dim is UNKNOWN else dim * count


def _stack_relation(call: Call, types: tuple[Type, ...]) -> Type:
    match types:
        case (TupleType(fields),) if fields:
            parts = tensors(call, fields, len(fields))
        case _:
            raise mistake(call, "takes one tuple of at least one tensor")
    require_same_dtype(call, parts)
    first = parts[0]
    for part in parts:
        is_ragged = len(part.shape) != len(first.shape)
        pairs = zip(part.shape, first.shape, strict=False)
        if is_ragged or any(a != b and UNKNOWN not in (a, b) for a, b in pairs):
            raise mistake(
                call, "takes tensors of one shape", f"found {spelled(first)} and {spelled(part)}"
            )
    columns = zip(*(part.shape for part in parts), strict=True)
    shape = [next((dim for dim in dims if dim is not UNKNOWN), UNKNOWN) for dims in columns]
    axis = normal_axis(call, attributes(call, AxisAttrs).axis, len(shape) + 1)
    return TensorType((*shape[:axis], len(parts), *shape[axis:]), first.dtype)


def aligned(shape: tuple[Dim, ...], reps: tuple[int, ...]) -> tuple[tuple[Dim, int], ...]:
    """Return length and repetitions of each axis of the result of tile."""
    rank = max(len(shape), len(reps))
    lengths = (1,) * (rank - len(shape)) + shape
    return tuple(zip(lengths, (1,) * (rank - len(reps)) + reps, strict=True))


def _tile_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    reps = attributes(call, TileAttrs).reps
    if any(count < 0 for count in reps):
        raise mistake(call, "needs repetitions that are not negative", f"found {list(reps)}")
    return TensorType(tuple(_times(*pair) for pair in aligned(data.shape, reps)), data.dtype)


def _repeat_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    attrs = attributes(call, RepeatAttrs)
    axis = normal_axis(call, attrs.axis, len(data.shape))
    if attrs.repeats < 0:
        raise mistake(call, "needs repetitions that are not negative", f"found {attrs.repeats}")
    wide = _times(data.shape[axis], attrs.repeats)
    return TensorType((*data.shape[:axis], wide, *data.shape[axis + 1 :]), data.dtype)


def _reverse_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    normal_axis(call, attributes(call, AxisAttrs).axis, len(data.shape))
    return data


def _stack(fields: tuple[Array, ...], attrs: AxisAttrs) -> Array:
    return np.stack(fields, axis=attrs.axis)


def _tile(data: Array, attrs: TileAttrs) -> Array:
    return np.tile(data, attrs.reps)


def _repeat(data: Array, attrs: RepeatAttrs) -> Array:
    return np.repeat(data, attrs.repeats, axis=attrs.axis)


def _reverse(data: Array, attrs: AxisAttrs) -> Array:
    return np.flip(data, attrs.axis)


def _operator(name: str, attrs: type[Attrs], relation: Relation, reference: Reference) -> Operator:
    return Operator(
        name=name,
        attrs=attrs,
        relation=relation,
        reference=reference,
        fusion=Fusion.INJECTIVE,
        accel=NotOnAccelerator(HOST_MOVES),
        work=no_work,
    )


OPERATORS: Final = (
    _operator("stack", AxisAttrs, _stack_relation, _stack),
    _operator("tile", TileAttrs, _tile_relation, _tile),
    _operator("repeat", RepeatAttrs, _repeat_relation, _repeat),
    _operator("reverse", AxisAttrs, _reverse_relation, _reverse),
)
"""Every operator of this file."""
