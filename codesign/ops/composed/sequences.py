"""Sequences of other lengths in one tensor, indices on several axes, and sums over named axes.

    sequence_mask(%x, %lengths, mask_value=0.0, axis=0)     behind each length the value
    reverse_sequence(%x, %lengths, seq_axis=1, batch_axis=0)     each row's first elements turned
    adv_index((%x, %i, %j))                   x[i, j], where indices broadcast
    einsum((%x, %y), equation="ij,jk->ik")    products, summed over what the result does not name

The batch of sequence_mask lies on axis 1 - `axis`. Lengths are held between 0 and the axis' length.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr, Project, Tuple
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.composed.pieces import (
    attrs_of,
    composed,
    constant,
    known_shape,
    places,
    take,
)
from codesign.ops.gradients.expressions import (
    add,
    broadcast_to,
    cast,
    expand_dims,
    multiply,
    number,
    op,
    reshape,
    subtract,
    tensor,
    total,
    transpose,
    where,
)
from codesign.ops.indexing import OPERATORS as INDEXING
from codesign.ops.relations import (
    INTEGERS,
    NUMBERS,
    attributes,
    broadcast,
    mistake,
    normal_axis,
    require_dtype,
    require_same_dtype,
    require_shape,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class SequenceMaskAttrs(Attrs):
    """What stands behind a sequence, and the axis along which it runs: 0 or 1."""

    mask_value: float = 0.0
    axis: int = 0


@final
@dataclass(frozen=True, kw_only=True)
class ReverseSequenceAttrs(Attrs):
    """The axis along which sequences run, and the one that tells them apart."""

    seq_axis: int = 1
    batch_axis: int = 0


@final
@dataclass(frozen=True, kw_only=True)
class EinsumAttrs(Attrs):
    """A letter for each axis of each operand, then those of the result."""

    equation: str


# --- sequences ----------------------------------------------------------------------------------


def _mask_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, lengths = static_tensors(call, types, 2)
    axis = attributes(call, SequenceMaskAttrs).axis
    require_dtype(call, data, NUMBERS, "data")
    require_dtype(call, lengths, INTEGERS, "lengths")
    if axis not in (0, 1) or len(data.shape) < 2:
        raise mistake(call, "runs along axis 0 or 1 of at least two", f"axis {axis}")
    require_shape(call, lengths, (data.static_shape[1 - axis],), "lengths")
    return data


def _mask(data: Array, lengths: Array, attrs: SequenceMaskAttrs) -> Array:
    rows = np.moveaxis(data.copy(), 1 - attrs.axis, 0)
    for row, length in zip(rows, lengths.tolist(), strict=True):
        row[max(length, 0) :] = np.asarray(attrs.mask_value).astype(data.dtype)
    return np.ascontiguousarray(np.moveaxis(rows, 0, 1 - attrs.axis))


def _expand_mask(call: Call, types: tuple[Type, ...]) -> Expr:
    data, lengths = call.args
    attrs, shape = attrs_of(call, SequenceMaskAttrs), known_shape(call, types[0])
    rank = len(shape)
    here = places(shape[attrs.axis], attrs.axis, rank, DType.INT64)
    wide = [shape[1 - attrs.axis] if axis == 1 - attrs.axis else 1 for axis in range(rank)]
    inside = op("less", here, reshape(cast(lengths, DType.INT64), wide))
    dtype = tensor(types[0]).dtype
    value = attrs.mask_value if dtype.is_float else int(attrs.mask_value)
    return where(inside, data, number(value, types[0]))


def _reverse_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, lengths = static_tensors(call, types, 2)
    attrs = attributes(call, ReverseSequenceAttrs)
    require_dtype(call, lengths, INTEGERS, "lengths")
    rank = len(data.shape)
    batch = normal_axis(call, attrs.batch_axis, rank)
    if normal_axis(call, attrs.seq_axis, rank) == batch:
        raise mistake(call, "needs two axes", f"both are axis {batch}")
    require_shape(call, lengths, (data.static_shape[batch],), "lengths")
    return data


def _reverse(data: Array, lengths: Array, attrs: ReverseSequenceAttrs) -> Array:
    rows = np.moveaxis(data.copy(), (attrs.batch_axis, attrs.seq_axis), (0, 1))
    for row, length in zip(rows, lengths.tolist(), strict=True):
        held = min(max(length, 0), len(row))
        row[:held] = row[:held][::-1].copy()
    return np.ascontiguousarray(np.moveaxis(rows, (0, 1), (attrs.batch_axis, attrs.seq_axis)))


def _expand_reverse(call: Call, types: tuple[Type, ...]) -> Expr:
    data, lengths = call.args
    attrs, shape = attrs_of(call, ReverseSequenceAttrs), known_shape(call, types[0])
    if 0 in shape:
        return data
    rank = len(shape)
    batch, run = attrs.batch_axis % rank, attrs.seq_axis % rank
    order = [batch, run, *(axis for axis in range(rank) if axis not in (batch, run))]
    count, length = shape[batch], shape[run]
    flat = reshape(transpose(data, order), (count * length, prod(shape) // (count * length)))
    here = places(length, 1, 2, DType.INT64)
    ends = reshape(cast(lengths, DType.INT64), (count, 1))
    held = op("minimum", ends, constant(length, DType.INT64))
    turned = subtract(subtract(held, constant(1, DType.INT64)), here)
    source = where(op("less", here, held), turned, here)
    begin = multiply(places(count, 0, 2, DType.INT64), constant(length, DType.INT64))
    rows = take(flat, add(begin, source), 0)
    whole = reshape(rows, [shape[axis] for axis in order])
    return transpose(whole, [order.index(axis) for axis in range(rank)])


# --- indices on several axes --------------------------------------------------------------------

_GATHER_ND: Final = next(each for each in INDEXING if each.name == "gather_nd")


def _fields(call: Call, types: tuple[Type, ...]) -> tuple[TensorType, ...]:
    match types:
        case (TupleType(fields),) if fields:
            return static_tensors(call, fields, len(fields))
        case _:
            raise mistake(call, "takes one tuple of at least one tensor")


def _adv_relation(call: Call, types: tuple[Type, ...]) -> Type:
    data, *indices = _fields(call, types)
    if not 1 <= len(indices) <= len(data.shape):
        found = f"{len(indices)} for rank {len(data.shape)}"
        raise mistake(call, "takes an index tensor for each of the first axes", found)
    require_same_dtype(call, indices)
    require_dtype(call, indices[0], INTEGERS, "index tensor")
    spread = broadcast(call, [each.shape for each in indices])
    return TensorType((*spread, *data.shape[len(indices) :]), data.dtype)


def _adv(values: tuple[Array, ...]) -> Array:
    data, *indices = values
    together = np.stack(np.broadcast_arrays(*indices), axis=-1)
    found = _GATHER_ND.reference(data, together)
    return np.asarray(found)


def _expand_adv(call: Call, types: tuple[Type, ...]) -> Expr:
    _, *indices = _fields(call, types)
    shape = np.broadcast_shapes(*(each.static_shape for each in indices))
    spread = [
        broadcast_to(Project(call.args[0], place), shape) for place in range(1, len(indices) + 1)
    ]
    together = op("stack", Tuple(tuple(spread)), attrs=AxisAttrs(axis=len(shape)))
    return op("gather_nd", Project(call.args[0], 0), together)


# --- sums over named axes -----------------------------------------------------------------------


def _letters(call: Call, operands: tuple[TensorType, ...]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; refuse those that do not fit."""
    equation = attributes(call, EinsumAttrs).equation.replace(" ", "")
    left, arrow, result = equation.partition("->")
    words = left.split(",")
    if not arrow:
        result = "".join(
            sorted(each for each in set(left) if left.count(each) == 1 and each != ",")
        )
    is_plain = all(each == "" or (each.isalpha() and each.isascii()) for each in (*words, result))
    fits = len(words) == len(operands) and all(
        len(word) == len(each.shape) for word, each in zip(words, operands, strict=False)
    )
    is_once = all(len(set(each)) == len(each) for each in (*words, result))
    if not (is_plain and fits and is_once and set(result) <= set(left)):
        raise mistake(
            call,
            "needs an equation that names every axis once",
            f"{equation!r} for operands of ranks {[len(each.shape) for each in operands]}",
        )
    return words, result


def _extents(call: Call, words: list[str], operands: tuple[TensorType, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word, each in zip(words, operands, strict=True):
        for letter, length in zip(word, each.static_shape, strict=True):
            if found.setdefault(letter, length) != length:
                lengths = f"{letter} is {found[letter]} and {length}"
                raise mistake(call, "has a letter of two lengths", lengths)
    return found


def _einsum_relation(call: Call, types: tuple[Type, ...]) -> Type:
    operands = _fields(call, types)
    require_same_dtype(call, operands)
    require_dtype(call, operands[0], NUMBERS, "first operand")
    words, result = _letters(call, operands)
    extents = _extents(call, words, operands)
    return TensorType(tuple(extents[letter] for letter in result), operands[0].dtype)


def _einsum(values: tuple[Array, ...], attrs: EinsumAttrs) -> Array:
    wide = [each.astype(np.float64) if each.dtype.kind == "f" else each for each in values]
    with np.errstate(all="ignore"):
        return np.asarray(np.einsum(attrs.equation, *wide)).astype(values[0].dtype)


def _expand_einsum(call: Call, types: tuple[Type, ...]) -> Expr:
    operands = _fields(call, types)
    words, result = _letters(call, operands)
    summed = sorted(set("".join(words)) - set(result))
    order = [*result, *summed]
    whole: Expr | None = None
    for number_, word in enumerate(words):
        value: Expr = Project(call.args[0], number_)
        known = [letter for letter in order if letter in word]
        if known != list(word):
            value = transpose(value, [word.index(letter) for letter in known])
        for axis, letter in enumerate(order):
            if letter not in word:
                value = expand_dims(value, axis)
        whole = value if whole is None else multiply(whole, value)
    assert whole is not None, "there is one operand at least"
    return total(whole, range(len(result), len(order)))


OPERATORS: Final = (
    composed("sequence_mask", _mask_relation, _mask, _expand_mask, SequenceMaskAttrs),
    composed(
        "reverse_sequence", _reverse_relation, _reverse, _expand_reverse, ReverseSequenceAttrs
    ),
    composed("adv_index", _adv_relation, _adv, _expand_adv, refuses=True),
    composed("einsum", _einsum_relation, _einsum, _expand_einsum, EinsumAttrs),
)
"""Every operator of this file."""
