"""Small builders of Relay that gradient rules are written in."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef, Project, Tuple
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type, type_text
from codesign.ops.axis import AxisAttrs
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.cast import CastAttrs
from codesign.ops.expand_dims import ExpandDimsAttrs
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.transpose import TransposeAttrs


def op(name: str, *args: Expr, attrs: Attrs | None = None) -> Expr:
    """Return a call of an operator."""
    return Call(OpRef(name), args, attrs)


def add(lhs: Expr, rhs: Expr) -> Expr:
    """Return lhs + rhs."""
    return op("add", lhs, rhs)


def subtract(lhs: Expr, rhs: Expr) -> Expr:
    """Return lhs - rhs."""
    return op("subtract", lhs, rhs)


def multiply(lhs: Expr, rhs: Expr) -> Expr:
    """Return lhs * rhs."""
    return op("multiply", lhs, rhs)


def divide(lhs: Expr, rhs: Expr) -> Expr:
    """Return lhs / rhs."""
    return op("divide", lhs, rhs)


def negative(value: Expr) -> Expr:
    """Return -value."""
    return op("negative", value)


def where(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """Return `then` where the condition holds, else `otherwise`."""
    return op("where", condition, then, otherwise)


def tensor(type_: Type) -> TensorType:
    """Return the type of what is known to be a tensor."""
    assert isinstance(type_, TensorType), "the operator's relation has seen to it"
    return type_


def number(value: float, like: Type) -> Constant:
    """Return a scalar of the element type of `like`."""
    return Constant(np.asarray(value, tensor(like).dtype.numpy))


def array(value: Array, like: Type) -> Constant:
    """Return a constant tensor in the element type of `like`."""
    return Constant(np.asarray(value, tensor(like).dtype.numpy))


def static(name: str, type_: Type) -> tuple[int, ...]:
    """Return a shape that a gradient needs to know.

    Raises
    ------
    CodesignError
        A dimension is known at run time only.
    """
    if not is_static(type_):
        what = f"the gradient of {name} needs shapes that are known"
        raise CodesignError.of(what, found=f"found {type_text(type_)}")
    return tensor(type_).static_shape


def is_float(type_: Type) -> bool:
    """Return whether a type is that of a floating-point tensor."""
    return isinstance(type_, TensorType) and type_.dtype.is_float


def is_static(type_: Type) -> bool:
    """Return whether every dimension of a tensor is known."""
    return all(isinstance(dim, int) for dim in tensor(type_).shape)


def zeros(type_: Type, like: Expr) -> Expr:
    """Return zeros of the type of `like`, in the same structure where that is a tuple."""
    if isinstance(type_, TupleType):
        return Tuple(
            tuple(zeros(each, Project(like, index)) for index, each in enumerate(type_.fields))
        )
    return op("zeros_like", like)


def cast(value: Expr, dtype: DType) -> Expr:
    """Return the value in another element type."""
    return op("cast", value, attrs=CastAttrs(dtype=dtype))


def reshape(value: Expr, shape: Sequence[int]) -> Expr:
    """Return the value's elements in another shape."""
    return op("reshape", value, attrs=ReshapeAttrs(shape=tuple(shape)))


def reshape_to(value: Expr, type_: Type, name: str) -> Expr:
    """Return the value's elements in the shape of a type."""
    return reshape(value, static(name, type_))


def transpose(value: Expr, axes: Sequence[int]) -> Expr:
    """Return the value with its axes in another order."""
    return op("transpose", value, attrs=TransposeAttrs(axes=tuple(axes)))


def broadcast_to(value: Expr, shape: Sequence[int]) -> Expr:
    """Return the value repeated up to a shape."""
    return op("broadcast_to", value, attrs=BroadcastToAttrs(shape=tuple(shape)))


def total(value: Expr, axes: Sequence[int], *, keepdims: bool = False) -> Expr:
    """Return the sum over axes; over none the value itself."""
    if not axes:
        return value
    return op("sum", value, attrs=ReduceAttrs(axis=tuple(axes), keepdims=keepdims))


def concatenate(values: Sequence[Expr], axis: int) -> Expr:
    """Return the values one after the other along an axis."""
    return op("concatenate", Tuple(tuple(values)), attrs=AxisAttrs(axis=axis))


def expand_dims(value: Expr, axis: int, count: int = 1) -> Expr:
    """Return the value with new axes of length 1 before an axis of the result."""
    return op("expand_dims", value, attrs=ExpandDimsAttrs(axis=axis, num_newaxis=count))


def collapse(adjoint: Expr, found: Type, wanted: Type, like: Expr) -> Expr:
    """Return the adjoint of a tensor that was broadcast: summed over what it was repeated along.

    `found` is the type of the adjoint, `wanted` that of the tensor, `like` the tensor itself.
    """
    shape = tensor(found).shape
    if UNKNOWN not in shape and shape == tensor(wanted).shape:
        return adjoint
    return op("collapse_sum_like", adjoint, like)


def kept_axes(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return reduced axes counted from the front, in order; none mean all."""
    return tuple(sorted({axis % rank for axis in axes})) if axes else tuple(range(rank))


def spread(value: Expr, data: Type, like: Expr, axes: Sequence[int], *, is_kept: bool) -> Expr:
    """Return a reduced tensor repeated along the axes that were reduced, in the data's shape.

    `is_kept` says whether those axes still stand in it with length 1; `like` is the data.
    """
    value = value if is_kept else unreduced(value, axes)
    if is_static(data):
        shape = tensor(data).static_shape
        return value if not axes else broadcast_to(value, shape)
    return op("broadcast_to_like", value, like)


def unreduced(value: Expr, axes: Sequence[int]) -> Expr:
    """Return a tensor with axes of length 1 where a reduction has taken axes away."""
    for axis in axes:
        value = expand_dims(value, axis)
    return value


def along_axis(vector: Expr, axis: int, rank: int) -> Expr:
    """Return a vector as a tensor that broadcasts along one axis of a tensor of this rank."""
    after = rank - 1 - axis % rank
    return expand_dims(vector, 1, after) if after else vector


def contract_axis(value: Expr, type_: Type, axis: int, matrix: Array) -> Expr:
    """Return the product with a matrix (new length, old length) along one axis."""
    rank = len(tensor(type_).shape)
    order = [each for each in range(rank) if each != axis]
    last = transpose(value, (*order, axis)) if axis != rank - 1 else value
    product = op("nn.dense", last, array(matrix, type_))
    back = (*range(axis), rank - 1, *range(axis, rank - 1))
    return transpose(product, back) if axis != rank - 1 else product


def elements_along(shape: Sequence[int], axes: Sequence[int]) -> int:
    """Return how many elements are joined by a reduction over axes."""
    return prod(shape[axis] for axis in axes)
