"""Operators that know the places of elements.

trilu(%x, %k, upper=True)         above the k-th diagonal, else zero; %k is a scalar of integers
meshgrid((%a, %b), indexing="ij") vectors spread over the grid that they span
unravel_index(%i, %shape)         the index tuple of a place in row-major order, on a first axis
invert_permutation(%p)            result[p[i]] = i
ndarray_size(%x)                  the number of elements
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, Literal, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, Project, Tuple
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.composed.pieces import (
    attrs_of,
    composed,
    constant,
    known_shape,
    piece,
    places,
    take,
)
from codesign.ops.counting import ShapeOfAttrs
from codesign.ops.gradients.expressions import (
    cast,
    multiply,
    op,
    reshape,
    subtract,
    tensor,
    total,
    where,
)
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.relations import (
    INTEGERS,
    NUMBERS,
    attributes,
    mistake,
    require_dtype,
    require_rank,
    require_same_dtype,
    spelled,
    tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class TriluAttrs(Attrs):
    """Whether what is above the diagonal stays, or what is below."""

    upper: bool = True


@final
@dataclass(frozen=True, kw_only=True)
class MeshgridAttrs(Attrs):
    """`ij`: the first vector runs along the first axis; `xy`: along the second."""

    indexing: Literal["ij", "xy"] = "ij"


@final
@dataclass(frozen=True, kw_only=True)
class NdarraySizeAttrs(Attrs):
    """The element type of the number."""

    dtype: DType = DType.INT64


def _trilu_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, diagonal = tensors(call, types, 2)
    attributes(call, TriluAttrs)
    require_dtype(call, diagonal, INTEGERS, "diagonal")
    require_rank(call, diagonal, 0, "a diagonal")
    if len(data.shape) < 2:
        raise mistake(call, "takes matrices", f"found {spelled(data)}")
    return data


def _trilu(data: Array, diagonal: Array, attrs: TriluAttrs) -> Array:
    return np.asarray((np.triu if attrs.upper else np.tril)(data, int(diagonal)))


def _expand_trilu(call: Call, types: tuple[Type, ...]) -> Expr:
    data, diagonal = call.args
    shape = tensor(types[0]).shape[-2:]
    rows, columns = known_shape(call, TensorType(shape, DType.INT64))
    distance = subtract(places(columns, 1, 2, DType.INT64), places(rows, 0, 2, DType.INT64))
    name = "greater_equal" if attrs_of(call, TriluAttrs).upper else "less_equal"
    kept = op(name, distance, cast(diagonal, DType.INT64))
    return where(kept, data, Constant(np.zeros((), tensor(types[0]).dtype.numpy)))


def _mesh_relation(call: Call, types: tuple[Type, ...]) -> Type:
    match types:
        case (TupleType(fields),) if fields:
            parts = tensors(call, fields, len(fields))
        case _:
            raise mistake(call, "takes one tuple of at least one vector")
    require_same_dtype(call, parts)
    require_dtype(call, parts[0], NUMBERS, "first vector")
    for each in parts:
        require_rank(call, each, 1, "vectors")
    shape = [each.shape[0] for each in parts]
    if attributes(call, MeshgridAttrs).indexing == "xy" and len(shape) > 1:
        shape[:2] = shape[1], shape[0]
    return TupleType((TensorType(tuple(shape), parts[0].dtype),) * len(parts))


def _mesh(vectors: tuple[Array, ...], attrs: MeshgridAttrs) -> tuple[Array, ...]:
    return tuple(map(np.ascontiguousarray, np.meshgrid(*vectors, indexing=attrs.indexing)))


def _expand_mesh(call: Call, types: tuple[Type, ...]) -> Expr:
    (parts,) = types
    assert isinstance(parts, TupleType), "the relation has seen to it"
    count = len(parts.fields)
    axes = list(range(count))
    if attrs_of(call, MeshgridAttrs).indexing == "xy" and count > 1:
        axes[:2] = 1, 0
    along = [
        reshape(
            Project(call.args[0], number_), [-1 if each == axis else 1 for each in range(count)]
        )
        for number_, axis in enumerate(axes)
    ]
    ones = [op("ones_like", each) for each in along]
    return Tuple(
        tuple(
            _product([each, *(other for i, other in enumerate(ones) if i != number_)])
            for number_, each in enumerate(along)
        )
    )


def _product(values: list[Expr]) -> Expr:
    whole = values[0]
    for each in values[1:]:
        whole = multiply(whole, each)
    return whole


def _unravel_relation(call: Call, types: tuple[Type, ...]) -> Type:
    indices, shape = tensors(call, types, 2)
    require_dtype(call, indices, INTEGERS, "index tensor")
    require_same_dtype(call, (indices, shape))
    require_rank(call, shape, 1, "a shape")
    if shape.shape == (0,):
        raise mistake(call, "needs a shape of at least one length")
    return TensorType((*shape.shape, *indices.shape), indices.dtype)


def _unravel(indices: Array, shape: Array) -> Array:
    if np.any(shape < 1):
        raise CodesignError.of("unravel_index needs lengths of at least 1", found=f"{list(shape)}")
    result, rest = [], indices.astype(np.int64)
    for length in reversed(shape.tolist()):
        result.append(rest % length)
        rest = rest // length
    return np.stack(result[::-1]).astype(indices.dtype)


def _expand_unravel(call: Call, types: tuple[Type, ...]) -> Expr:
    indices, shape = call.args
    (rank,) = known_shape(call, TensorType(tensor(types[1]).shape, DType.INT64))
    rest, found = indices, []
    for axis in reversed(range(rank)):
        length = reshape(piece(shape, 0, axis, axis + 1), ())
        quotient = op("floor_divide", rest, length)
        found.append(subtract(rest, multiply(quotient, length)))
        rest = quotient
    return op("stack", Tuple(tuple(found[::-1])), attrs=AxisAttrs(axis=0))


def _invert_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = tensors(call, types, 1)
    require_dtype(call, data, INTEGERS)
    require_rank(call, data, 1, "a permutation")
    return data


def _invert(data: Array) -> Array:
    if sorted(data.tolist()) != list(range(len(data))):
        raise CodesignError.of("invert_permutation takes a permutation", found=f"{data.tolist()}")
    result = np.empty_like(data)
    result[data] = np.arange(len(data)).astype(data.dtype)
    return result


def _expand_invert(call: Call, types: tuple[Type, ...]) -> Expr:
    """Find for each place the index that means it; where there is none, no table has its place."""
    (data,), dtype = call.args, tensor(types[0]).dtype
    (length,) = known_shape(call, types[0])
    if length == 0:
        return data
    hot = op("equal", reshape(data, (1, length)), places(length, 0, 2, dtype))
    hits = total(cast(hot, DType.INT64), (1,))
    found = total(multiply(cast(hot, DType.INT64), places(length, 1, 2, DType.INT64)), (1,))
    far = constant(length, DType.INT64)
    once = op("equal", hits, constant(1, DType.INT64))
    checked = take(constant(range(length), DType.INT64), where(once, found, far), 0)
    return cast(checked, dtype)


def _size_relation(call: Call, types: tuple[Type, ...]) -> Type:
    tensors(call, types, 1)
    dtype = attributes(call, NdarraySizeAttrs).dtype
    if dtype not in INTEGERS:
        raise mistake(call, "gives an integer", f"the result's element type is {dtype}")
    return TensorType((), dtype)


def _size(data: Array, attrs: NdarraySizeAttrs) -> Array:
    return np.asarray(prod(data.shape)).astype(attrs.dtype.numpy)


def _expand_size(call: Call, _types: tuple[Type, ...]) -> Expr:
    lengths = op("shape_of", *call.args, attrs=ShapeOfAttrs())
    return cast(op("prod", lengths, attrs=ReduceAttrs()), attrs_of(call, NdarraySizeAttrs).dtype)


OPERATORS: Final = (
    composed("trilu", _trilu_relation, _trilu, _expand_trilu, TriluAttrs),
    composed("meshgrid", _mesh_relation, _mesh, _expand_mesh, MeshgridAttrs),
    composed("unravel_index", _unravel_relation, _unravel, _expand_unravel, refuses=True),
    composed("invert_permutation", _invert_relation, _invert, _expand_invert, refuses=True),
    composed("ndarray_size", _size_relation, _size, _expand_size, NdarraySizeAttrs),
)
"""Every operator of this file."""
