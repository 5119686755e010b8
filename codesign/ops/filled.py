"""Tensors of one value: zeros ones full zeros_like ones_like full_like.

    zeros(shape=[2, 3], dtype="float32")     full(%value, shape=[2, 3])     zeros_like(%x)

`zeros` and `ones` take no argument; `full` repeats a scalar, whose element type the result has.
`…_like` gives the shape and element type of its first argument, whose values have no influence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator, Reference, Relation
from codesign.ops.relations import (
    HOST_MOVES,
    attributes,
    mistake,
    no_work,
    require_rank,
    require_same_dtype,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class FilledAttrs(Attrs):
    """Shape and element type of the result."""

    shape: tuple[int, ...]
    dtype: DType


@final
@dataclass(frozen=True, kw_only=True)
class FullAttrs(Attrs):
    """Shape of the result."""

    shape: tuple[int, ...]


def _require_lengths(call: Call, shape: tuple[int, ...]) -> None:
    if any(dim < 0 for dim in shape):
        raise mistake(call, "needs lengths that are not negative", f"found {list(shape)}")


def _filled_relation(call: Call, types: tuple[Type, ...]) -> Type:
    tensors(call, types, 0)
    attrs = attributes(call, FilledAttrs)
    _require_lengths(call, attrs.shape)
    return TensorType(attrs.shape, attrs.dtype)


def _full_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (value,) = tensors(call, types, 1)
    require_rank(call, value, 0, "a value")
    shape = attributes(call, FullAttrs).shape
    _require_lengths(call, shape)
    return TensorType(shape, value.dtype)


def _like_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    return data


def _full_like_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, value = tensors(call, types, 2)
    require_rank(call, value, 0, "a value")
    require_same_dtype(call, (data, value))
    return data


def _zeros(attrs: FilledAttrs) -> Array:
    return np.zeros(attrs.shape, attrs.dtype.numpy)


def _ones(attrs: FilledAttrs) -> Array:
    return np.ones(attrs.shape, attrs.dtype.numpy)


def _full(value: Array, attrs: FullAttrs) -> Array:
    return np.full(attrs.shape, value, value.dtype)


def _full_like(data: Array, value: Array) -> Array:
    return np.full(data.shape, value, data.dtype)


def _operator(
    name: str,
    relation: Relation,
    reference: Reference,
    attrs: type[Attrs] | None = None,
    fusion: Fusion = Fusion.ELEMENTWISE,
) -> Operator:
    return Operator(
        name=name,
        attrs=attrs,
        relation=relation,
        reference=reference,
        fusion=fusion,
        accel=NotOnAccelerator(HOST_MOVES),
        work=no_work,
    )


OPERATORS: Final = (
    _operator("zeros", _filled_relation, _zeros, FilledAttrs),
    _operator("ones", _filled_relation, _ones, FilledAttrs),
    _operator("full", _full_relation, _full, FullAttrs, Fusion.BROADCAST),
    _operator("zeros_like", _like_relation, np.zeros_like),
    _operator("ones_like", _like_relation, np.ones_like),
    _operator("full_like", _full_like_relation, _full_like, fusion=Fusion.BROADCAST),
)
"""Every operator of this file."""
