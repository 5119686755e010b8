"""Builds Relay calls whose types are known at once; small calls of constants become constants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

import numpy as np

from codesign.compiler.frontend.onnx.codes import Codes
from codesign.diagnostics import InternalError, Span
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef, Project, Tuple
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.table import OPERATORS

FOLD_ELEMENTS: Final = 1 << 16
"""A call of constants with at most so many elements is evaluated at import: shape arithmetic."""


@final
class Builder:
    """Makes expressions and remembers their types, which are static all along."""

    def __init__(self) -> None:
        self._types: dict[Expr, Type] = {}
        self.span: Span | None = None
        self.codes: dict[Expr, Codes] = {}
        """What floating-point values were made of that a graph dequantizes."""

    def declare(self, expr: Expr, type_: Type) -> None:
        """Record the type of an expression that was made elsewhere, as a parameter is."""
        self._types[expr] = type_

    def type_of(self, expr: Expr) -> TensorType:
        """Return the type of a tensor."""
        type_ = self._types[expr]
        if not isinstance(type_, TensorType):
            raise InternalError(f"an ONNX value must be a tensor, not {type_}")
        return type_

    def shape_of(self, expr: Expr) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.type_of(expr).static_shape

    def dtype_of(self, expr: Expr) -> DType:
        """Return the element type of a tensor."""
        return self.type_of(expr).dtype

    def constant(self, value: Array) -> Constant:
        """Return a tensor that is known now."""
        constant = Constant(value, self.span)
        self._types[constant] = TensorType(value.shape, DType.of(value.dtype))
        return constant

    def scalar(self, value: float, like: Expr) -> Constant:
        """Return a scalar with the element type of another tensor."""
        return self.constant(np.array(value, self.dtype_of(like).numpy))

    def call(self, name: str, *args: Expr, attrs: Attrs | None = None) -> Expr:
        """Return the call of an operator, or its value where all arguments are known and few."""
        call = Call(OpRef(name, self.span), args, attrs, self.span)
        operator = OPERATORS[name]
        result = operator.relation(call, tuple(self._types[arg] for arg in args))
        if _is_small(result) and (arrays := _constants(args)) is not None:
            value = (
                operator.reference(*arrays)
                if attrs is None
                else operator.reference(*arrays, attrs=attrs)
            )
            return self.constant(np.ascontiguousarray(value).reshape(np.shape(value)))
        self._types[call] = result
        return call

    def make_tuple(self, fields: Iterable[Expr]) -> Expr:
        """Return a tuple of tensors."""
        made = Tuple(tuple(fields), self.span)
        self._types[made] = TupleType(tuple(self._types[field] for field in made.fields))
        return made

    def fields(self, value: Expr) -> tuple[Expr, ...]:
        """Return the fields of a tuple-valued call."""
        type_ = self._types[value]
        if not isinstance(type_, TupleType):
            raise InternalError(f"only a tuple has fields, not {type_}")
        made = tuple(Project(value, index, self.span) for index in range(len(type_.fields)))
        self._types.update(zip(made, type_.fields, strict=True))
        return made


def _is_small(type_: Type) -> bool:
    return isinstance(type_, TensorType) and int(np.prod(type_.static_shape)) <= FOLD_ELEMENTS


def _constants(args: tuple[Expr, ...]) -> list[Array | tuple[Array, ...]] | None:
    arrays: list[Array | tuple[Array, ...]] = []
    for arg in args:
        match arg:
            case Constant(value):
                arrays.append(value)
            case Tuple(fields) if all(isinstance(field, Constant) for field in fields):
                arrays.append(tuple(f.value for f in fields if isinstance(f, Constant)))
            case _:
                return None
    return arrays
