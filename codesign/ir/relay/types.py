"""Relay's types: frozen values that compare by value.

type := Tensor[(dim, …), dtype] | (type, …) | fn (type, …) -> type
dim  := integer | ?
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, assert_never, final

from codesign.dtypes import DType


class _Unknown(Enum):
    UNKNOWN = "?"

    def __repr__(self) -> str:
        return "?"

    def __str__(self) -> str:
        return "?"


UNKNOWN: Final = _Unknown.UNKNOWN
"""A dimension that is known at run time only."""

Dim: TypeAlias = int | _Unknown


@final
@dataclass(frozen=True, slots=True)
class TensorType:
    """`Tensor[(2, 3), float32]`: a dense array; rank 0 is a scalar."""

    shape: tuple[Dim, ...]
    dtype: DType

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape where every dimension is known; raise ValueError where one is not."""
        if any(dim is UNKNOWN for dim in self.shape):
            raise ValueError(f"shape {self.shape} has an unknown dimension")
        return tuple(dim for dim in self.shape if dim is not UNKNOWN)


@final
@dataclass(frozen=True, slots=True)
class TupleType:
    """`(a, b)`: a product of types."""

    fields: tuple[Type, ...]


@final
@dataclass(frozen=True, slots=True)
class FuncType:
    """`fn (a, b) -> c`."""

    params: tuple[Type, ...]
    result: Type


Type: TypeAlias = TensorType | TupleType | FuncType


def type_text(type_: Type) -> str:
    """Return a type in Relay text."""
    match type_:
        case TensorType((), dtype):
            return str(dtype)
        case TensorType(shape, dtype):
            dims = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
            return f"Tensor[({dims}), {dtype}]"
        case TupleType(fields):
            inside = ", ".join(map(type_text, fields)) + ("," if len(fields) == 1 else "")
            return f"({inside})"
        case FuncType(params, result):
            return f"fn ({', '.join(map(type_text, params))}) -> {type_text(result)}"
        case _:
            assert_never(type_)
