"""Broadcasting operators of two tensors without attributes.

    add subtract multiply divide power maximum minimum
    equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
    bitwise_and bitwise_or bitwise_xor left_shift right_shift

Both operands have one element type. Integers wrap around; integer division truncates towards zero
and refuses a divisor of zero. `maximum` and `minimum` return NaN where an operand is NaN.
Comparisons give `bool`. Distances of shifts are taken modulo the number of bits; to the right, a
signed number keeps its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator, Relation
from codesign.ops.relations import (
    ALL_DTYPES,
    FLOATS,
    HOST_FLOAT,
    INTEGERS,
    NUMBERS,
    broadcast,
    per_element,
    require_dtype,
    require_same_dtype,
    tensors,
)


def broadcasting(allowed: frozenset[DType], result: DType | None = None) -> Relation:
    """Return the relation of two operands of one type to what they broadcast to."""

    def relation(call: Call, types: tuple[Type, ...]) -> Type:
        operands = tensors(call, types, 2)
        require_same_dtype(call, operands)
        require_dtype(call, operands[0], allowed, "left operand")
        shape = broadcast(call, [each.shape for each in operands])
        return TensorType(shape, operands[0].dtype if result is None else result)

    return relation


def _binary(
    name: str,
    reference: Callable[[Array, Array], Array],
    allowed: frozenset[DType] = NUMBERS,
    result: DType | None = None,
) -> Operator:
    return Operator(
        name=name,
        relation=broadcasting(allowed, result),
        reference=ieee(reference),
        fusion=Fusion.BROADCAST,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(1),
    )


def _comparison(name: str, reference: Callable[[Array, Array], Array]) -> Operator:
    return _binary(name, reference, ALL_DTYPES, DType.BOOL)


def _divide(lhs: Array, rhs: Array) -> Array:
    if lhs.dtype.kind == "f":
        return np.asarray(np.divide(lhs, rhs))
    if np.any(rhs == 0):
        raise CodesignError.of("divide has an integer divisor of zero")
    quotient = np.floor_divide(lhs, rhs)
    inexact = np.remainder(lhs, rhs) != 0
    return np.asarray(quotient + ((lhs < 0) != (rhs < 0)) * inexact).astype(lhs.dtype)


def _distance(shift: Array) -> Array:
    return np.asarray(shift & shift.dtype.type(8 * shift.dtype.itemsize - 1))


def _left_shift(lhs: Array, rhs: Array) -> Array:
    return np.asarray(np.left_shift(lhs, _distance(rhs)))


def _right_shift(lhs: Array, rhs: Array) -> Array:
    return np.asarray(np.right_shift(lhs, _distance(rhs)))


_LOGICAL: Final = frozenset({DType.BOOL})
_BITS: Final = INTEGERS | _LOGICAL

OPERATORS: Final = (
    _binary("add", np.add),
    _binary("subtract", np.subtract),
    _binary("multiply", np.multiply),
    _binary("divide", _divide),
    _binary("power", np.power, FLOATS),
    _binary("maximum", np.maximum),
    _binary("minimum", np.minimum),
    _comparison("equal", np.equal),
    _comparison("not_equal", np.not_equal),
    _comparison("less", np.less),
    _comparison("less_equal", np.less_equal),
    _comparison("greater", np.greater),
    _comparison("greater_equal", np.greater_equal),
    _binary("logical_and", np.logical_and, _LOGICAL),
    _binary("logical_or", np.logical_or, _LOGICAL),
    _binary("logical_xor", np.logical_xor, _LOGICAL),
    _binary("bitwise_and", np.bitwise_and, _BITS),
    _binary("bitwise_or", np.bitwise_or, _BITS),
    _binary("bitwise_xor", np.bitwise_xor, _BITS),
    _binary("left_shift", _left_shift, INTEGERS),
    _binary("right_shift", _right_shift, INTEGERS),
)
"""Every operator of this file."""
