"""Relay's types: frozen values that compare by value.

type := Tensor[(dim, …), dtype] | (type, …) | fn[A, …] (type, …) -> type
      | A | Name[type, …] | ref(type) | _
dim  := integer | ? | n
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
@dataclass(frozen=True, slots=True, eq=False)
class Length:
    """`n`: an unknown length with a name, the same wherever it stands; identity is the node.

    It belongs to the global function whose parameters mention it, and each call chooses it anew.
    """

    name: str


@final
@dataclass(frozen=True, slots=True)
class TensorType:
    """`Tensor[(2, 3), float32]`: a dense array; rank 0 is a scalar.

    `lengths` may give a name to dimensions that are `?`: `Tensor[(n, 3), float32]` has the shape
    `(?, 3)` and the lengths `(n, None)`. Types that differ in names only are equal.
    """

    shape: tuple[Dim, ...]
    dtype: DType
    lengths: tuple[Length | None, ...] = field(default=(), compare=False)

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
class TypeVar:
    """`A`: a type parameter; its name is unique among those in scope."""

    name: str


@final
@dataclass(frozen=True, slots=True)
class FuncType:
    """`fn[A] (a, b) -> c`; with type parameters each use of the function chooses them anew."""

    params: tuple[Type, ...]
    result: Type
    type_params: tuple[TypeVar, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class TypeCall:
    """`List[a]`: a data type of the module, applied to types."""

    name: str
    args: tuple[Type, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class RefType:
    """`ref(a)`: a cell that holds a value and can be written."""

    value: Type


@final
@dataclass(frozen=True, slots=True, eq=False)
class Hole:
    """`_`: a type that inference finds; identity is the node."""


Type: TypeAlias = TensorType | TupleType | FuncType | TypeVar | TypeCall | RefType | Hole


def type_text(type_: Type) -> str:
    """Return a type in Relay text."""
    match type_:
        case TensorType((), dtype):
            return str(dtype)
        case TensorType(shape, dtype):
            named = zip(shape, type_.lengths or (None,) * len(shape), strict=True)
            dims = ", ".join(str(dim) if name is None else name.name for dim, name in named)
            return f"Tensor[({dims}{',' if len(shape) == 1 else ''}), {dtype}]"
        case TupleType(fields):
            inside = ", ".join(map(type_text, fields)) + ("," if len(fields) == 1 else "")
            return f"({inside})"
        case FuncType(params, result, type_params):
            inside = ", ".join(map(type_text, params))
            return f"fn{type_params_text(type_params)} ({inside}) -> {type_text(result)}"
        case TypeVar(name):
            return name
        case TypeCall(name, ()):
            return name
        case TypeCall(name, args):
            return f"{name}[{', '.join(map(type_text, args))}]"
        case RefType(value):
            return f"ref({type_text(value)})"
        case Hole():
            return "_"
        case _:
            assert_never(type_)


def type_params_text(type_params: tuple[TypeVar, ...]) -> str:
    """Return type parameters in Relay text, `[A, B]`; nothing where there are none."""
    return f"[{', '.join(each.name for each in type_params)}]" if type_params else ""
