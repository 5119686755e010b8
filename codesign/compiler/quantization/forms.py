"""The integer form of each call: what the accelerator's vocabulary can say, or why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Expr
from codesign.ops.nn.pool2d import Pool2DAttrs

Function: TypeAlias = Callable[[Array], Array]
"""An elementwise function in float32."""


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits that a fused clip puts on a result, in real numbers."""

    low: float = float("-inf")
    high: float = float("inf")

    def within(self, other: Bounds) -> Bounds:
        """Return the limits of this clip followed by another."""
        low = min(max(self.low, other.low), other.high)
        return Bounds(low, max(low, min(self.high, other.high)))


@final
@dataclass(frozen=True, slots=True)
class Affine:
    """A convolution or matrix product with its bias: `chain` are the calls, the anchor first."""

    data: Expr
    weight: Array
    bias: Array
    chain: tuple[Call, ...]
    bounds: Bounds = Bounds()


@final
@dataclass(frozen=True, slots=True)
class Matmul:
    """A product of two stacks of matrices, both computed: codes of both have zero point 0."""

    lhs: Expr
    rhs: Expr
    chain: tuple[Call, ...]
    bounds: Bounds = Bounds()


@final
@dataclass(frozen=True, slots=True)
class Lookup:
    """An elementwise function of one tensor, as a table of 256 entries."""

    data: Expr
    function: Function
    chain: tuple[Call, ...]


@final
@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of two tensors of one shape."""

    lhs: Expr
    rhs: Expr
    chain: tuple[Call, ...]
    bounds: Bounds = Bounds()


@final
@dataclass(frozen=True, slots=True)
class Product:
    """The product of two tensors; `rhs` has the shape of `lhs` or is a gate [n, c, 1, 1]."""

    lhs: Expr
    rhs: Expr
    chain: tuple[Call, ...]
    bounds: Bounds = Bounds()


@final
@dataclass(frozen=True, slots=True)
class Average:
    """An average over windows that all have `count` elements."""

    data: Expr
    window: Pool2DAttrs
    count: int
    channels: int
    chain: tuple[Call, ...]
    bounds: Bounds = Bounds()


@final
@dataclass(frozen=True, slots=True)
class Same:
    """A call that moves or picks elements: its codes mean what those of its argument mean."""

    data: Expr
    call: Call

    @property
    def chain(self) -> tuple[Call, ...]:
        """The call itself."""
        return (self.call,)


@final
@dataclass(frozen=True, slots=True)
class Join:
    """A concatenation: all parts have one scale."""

    parts: tuple[Expr, ...]
    call: Call

    @property
    def chain(self) -> tuple[Call, ...]:
        """The call itself."""
        return (self.call,)


@final
@dataclass(frozen=True, slots=True)
class Floating:
    """No integer form, for a reason."""

    reason: str


Integer: TypeAlias = Affine | Matmul | Lookup | Sum | Product | Average | Same | Join
Form: TypeAlias = Integer | Floating
