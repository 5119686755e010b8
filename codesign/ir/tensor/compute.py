"""Index notation: what one element of a tensor is, as an expression over other tensors' elements.

expr := literal | buffer[index, …] | function(expr, …) | expr as dtype | index
      | expr if (low <= index < high and …) else expr | reduce over axes of expr | accumulator
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, final

from codesign.dtypes import DType
from codesign.ir.tensor.index import Axis, Index
from codesign.ir.tensor.layout import Buffer


class Fn(StrEnum):
    """Functions of scalars; the operands of a function have one type.

    `NEAREST` is a float rounded half to even, as int32; it has no meaning outside of that type.
    """

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    POWER = "power"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    FMA = "fma"
    NEGATE = "negate"
    ABS = "abs"
    SQRT = "sqrt"
    EXP = "exp"
    LOG = "log"
    TANH = "tanh"
    ERF = "erf"
    SIGMOID = "sigmoid"
    FAST_EXP = "fast_exp"
    FAST_TANH = "fast_tanh"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND_EVEN = "round_even"
    NEAREST = "nearest"
    SHIFT_RIGHT = "shift_right"
    SHIFT_LEFT = "shift_left"
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    LESS = "less"
    LESS_EQUAL = "less_equal"
    GREATER = "greater"
    GREATER_EQUAL = "greater_equal"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SELECT = "select"


class Reduction(StrEnum):
    """How a reduction joins two values."""

    SUM = "sum"
    PRODUCT = "product"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A number."""

    value: float | int
    dtype: DType


@final
@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """`buffer[index]`, by the tensor's own index wherever the element lies."""

    buffer: Buffer
    index: tuple[Index, ...]

    @property
    def dtype(self) -> DType:
        """The tensor's element type."""
        return self.buffer.dtype


@final
@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """`function(args)`; `dtype` is the result's type."""

    function: Fn
    args: tuple[Expr, ...]
    dtype: DType


@final
@dataclass(frozen=True, slots=True, eq=False)
class Convert:
    """`value as dtype`: floats to integers toward zero, integers wrap around."""

    value: Expr
    dtype: DType


@final
@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """An index as an int64 value."""

    index: Index
    dtype: DType = DType.INT64


@final
@dataclass(frozen=True, slots=True, eq=False)
class Guarded:
    """`body` where every `low <= index < high`, else `otherwise`; `body` is evaluated only then."""

    conditions: tuple[tuple[Index, int, int], ...]
    body: Expr
    otherwise: Expr

    @property
    def dtype(self) -> DType:
        """The type of both arms."""
        return self.body.dtype


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """Join `body` over axes, in row-major order from `initial`."""

    kind: Reduction
    axes: tuple[Axis, ...]
    body: Expr
    initial: Literal

    @property
    def dtype(self) -> DType:
        """The type of the result."""
        return self.body.dtype


@final
@dataclass(frozen=True, slots=True, eq=False)
class Accumulator:
    """What a hand-blocked kernel computed for this element, before its epilogue."""

    dtype: DType


Expr: TypeAlias = Literal | Load | Apply | Convert | Position | Guarded | Reduce | Accumulator


def apply(function: Fn, *args: Expr, dtype: DType | None = None) -> Expr:
    """Return `function(args)` with the type of the first argument unless told otherwise."""
    return Apply(function, args, dtype or args[0].dtype)


def convert(value: Expr, dtype: DType) -> Expr:
    """Return the value as another type; itself where it has that type."""
    return value if value.dtype is dtype else Convert(value, dtype)


def literal_like(value: float, expr: Expr) -> Literal:
    """Return a number of an expression's type."""
    return Literal(value if expr.dtype.is_float else int(value), expr.dtype)
