"""The record that says everything about an operator; `ops.table` holds one per operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias, final

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call, Expr
from codesign.ir.relay.types import Type

Relation: TypeAlias = Callable[[Call, tuple[Type, ...]], Type]
"""`(call, argument types) -> result type`; raises CodesignError with the call's span."""

Value: TypeAlias = Array | tuple["Value", ...]
"""What a first-order expression evaluates to: a tensor or a tuple of values."""

Reference: TypeAlias = Callable[..., Value]
"""The meaning: `reference(*values, attrs) -> value`, without `attrs` where there are none.

A tuple argument (`concatenate`) is a Python tuple of arrays. `attrs` may be passed by position or
by name.
"""

Work: TypeAlias = Callable[[Call, tuple[Type, ...], Type], int]
"""`(call, argument types, result type) -> arithmetic operations`; moving data is none."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A call as its gradient rule sees it: what goes in, what comes out, and their types.

    `args` and `result` stand for values that are computed already; a rule may use them freely.
    """

    attrs: Attrs | None
    args: tuple[Expr, ...]
    types: tuple[Type, ...]
    result: Expr
    result_type: Type


Gradient: TypeAlias = Callable[[Forward, Expr], tuple[Expr | None, ...]]
"""`(call, adjoint of its result) -> adjoint of each argument`, in Relay, made of operators.

An adjoint has the type of what it belongs to; that of a tuple is a tuple. None says that nothing
flows back into the argument: it has no influence, or only by jumps.
"""


@final
@dataclass(frozen=True, slots=True)
class NotDifferentiable:
    """The operator has no gradient, for a reason that the user reads."""

    reason: str


@final
@dataclass(frozen=True, slots=True)
class ThroughExpansion:
    """The gradient is that of the operator's expansion."""


Expansion: TypeAlias = Callable[[Call, tuple[Type, ...]], Expr]
"""`(call, argument types) -> equal expression of simpler operators` over the call's arguments.

Lengths of the arguments may be unknown; where the expansion needs one it raises CodesignError.
"""


class Fusion(IntEnum):
    """How an operator may be fused with its producers and consumers, weakest first."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    ANCHOR = 4
    OPAQUE = 8


@final
@dataclass(frozen=True, slots=True)
class OnUnit:
    """The accelerator runs the operator on a unit: `gemm` or `vector`.

    Whether it does under a configuration is the accelerator backend's to say, with a reason.
    """

    unit: str


@final
@dataclass(frozen=True, slots=True)
class NotOnAccelerator:
    """The operator stays on the host, for a reason that the placement table shows."""

    reason: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator of the vocabulary."""

    name: str
    relation: Relation
    reference: Reference
    fusion: Fusion
    accel: OnUnit | NotOnAccelerator
    work: Work
    attrs: type[Attrs] | None = None
    gradient: Gradient | NotDifferentiable | ThroughExpansion = NotDifferentiable(
        "no rule is written for it"
    )
    expansion: Expansion | None = None
    refuses: bool = False
    """Whether it may refuse values of the right type when it runs."""
