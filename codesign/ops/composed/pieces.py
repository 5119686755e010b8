"""What expansions are written in, beside the builders of `ops.gradients.expressions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef, Tuple
from codesign.ir.relay.types import UNKNOWN, Dim, TensorType, Type, type_text
from codesign.ops.axis import AxisAttrs
from codesign.ops.counting import ShapeOfAttrs
from codesign.ops.gradients.expressions import op, reshape, tensor
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.operator import (
    Expansion,
    Fusion,
    NotOnAccelerator,
    Operator,
    Reference,
    Relation,
    Work,
)
from codesign.ops.relations import HOST_FLOAT, no_work, operator_name
from codesign.ops.strided_slice import StridedSliceAttrs

AttrsT = TypeVar("AttrsT", bound=Attrs)


def composed(
    name: str,
    relation: Relation,
    reference: Reference,
    expansion: Expansion,
    attrs: type[Attrs] | None = None,
    *,
    work: Work = no_work,
    refuses: bool = False,
) -> Operator:
    """Return the record of a composed operator; it stays on the host until it is expanded."""
    return Operator(
        name=name,
        attrs=attrs,
        relation=relation,
        reference=reference,
        fusion=Fusion.OPAQUE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=work,
        expansion=expansion,
        refuses=refuses,
    )


def attrs_of(call: Call, kind: type[AttrsT]) -> AttrsT:
    """Return a call's attributes, which the relation has checked."""
    assert isinstance(call.attrs, kind), f"the call carries {kind.__name__}"
    return call.attrs


def as_called(call: Call, attrs: Attrs | None) -> Call:
    """Return the call with other attributes, to ask another operator's relation in its name."""
    return Call(OpRef(operator_name(call)), call.args, attrs, call.span)


def known_shape(call: Call, type_: Type) -> tuple[int, ...]:
    """Return a shape that an expansion needs to know.

    Raises
    ------
    CodesignError
        A length is known at run time only.
    """
    found = tensor(type_)
    if UNKNOWN in found.shape:
        raise CodesignError.of(
            f"{operator_name(call)} is compiled for known lengths only",
            found=f"found {type_text(type_)}",
            help="give the lengths of its operands, or run it in the interpreter",
        )
    return found.static_shape


def constant(array: ArrayLike, dtype: DType) -> Constant:
    """Return a constant tensor."""
    return Constant(np.asarray(array).astype(dtype.numpy))


def places(count: int, axis: int, rank: int, dtype: DType) -> Constant:
    """Return 0, 1, … along one axis of a tensor of this rank, the others of length 1."""
    shape = [count if each == axis else 1 for each in range(rank)]
    return constant(np.arange(count).reshape(shape), dtype)


def piece(value: Expr, axis: int, begin: int, end: int, stride: int = 1) -> Expr:
    """Return the elements from `begin` up to `end` along an axis, as strided_slice counts them."""
    attrs = StridedSliceAttrs(begin=(begin,), end=(end,), strides=(stride,), axes=(axis,))
    return op("strided_slice", value, attrs=attrs)


def pad(value: Expr, widths: Sequence[tuple[int, int]], number: float = 0) -> Expr:
    """Return the value with elements around it; negative widths remove some."""
    if not any(each for pair in widths for each in pair):
        return value
    return op("nn.pad", value, attrs=PadAttrs(pad_width=tuple(widths), value=number))


def take(value: Expr, indices: Expr, axis: int) -> Expr:
    """Return what lies at indices of an axis."""
    return op("take", value, indices, attrs=AxisAttrs(axis=axis))


def length_of(value: Expr, axis: int) -> Expr:
    """Return the length of an axis: one int64."""
    return piece(op("shape_of", value, attrs=ShapeOfAttrs()), 0, axis, axis + 1)


def reshaped(value: Expr, dims: Sequence[int | Expr]) -> Expr:
    """Return the value in another shape; a length that is not known is one int64, `length_of`."""
    open_ones = sum(isinstance(each, Expr) for each in dims)
    if open_ones == 0 or (open_ones == 1 and 0 not in dims):
        return reshape(value, [each if isinstance(each, int) else -1 for each in dims])
    parts = [constant([each], DType.INT64) if isinstance(each, int) else each for each in dims]
    shape = op("concatenate", Tuple(tuple(parts)), attrs=AxisAttrs(axis=0))
    return op("dyn.reshape", value, shape)


def lengths(value: Expr, type_: Type) -> list[int | Expr]:
    """Return the length of each axis: a number where it is known, else one int64."""
    return [
        dim if isinstance(dim, int) else length_of(value, axis)
        for axis, dim in enumerate(tensor(type_).shape)
    ]


def times(length: int | Expr, factor: int) -> int | Expr:
    """Return a multiple of a length."""
    if isinstance(length, int):
        return length * factor
    return op("multiply", length, constant([factor], DType.INT64))


def over(length: int | Expr, divisor: int) -> int | Expr:
    """Return a part of a length that the divisor divides."""
    if isinstance(length, int):
        return length // divisor
    return op("divide", length, constant([divisor], DType.INT64))


def scaled_dim(dim: Dim, function: Callable[[int], int]) -> Dim:
    """Return what a length becomes, `?` where it is not known."""
    return UNKNOWN if dim is UNKNOWN else function(dim)


def scalar_of(type_: TensorType) -> TensorType:
    """Return the type of one element."""
    return TensorType((), type_.dtype)
