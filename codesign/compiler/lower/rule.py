"""What lowering rules share: how a rule reads its operands, and how shapes broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from codesign.compiler.lower.graph import Step, Value
from codesign.dtypes import DType
from codesign.ir.relay.expr import Attrs
from codesign.ir.tensor.compute import Expr, Literal
from codesign.ir.tensor.index import Index

Read: TypeAlias = Callable[[int, tuple[Index, ...]], Expr]
"""`(operand's number, index) -> the operand's element`."""

Rule: TypeAlias = Callable[[Step, tuple[Index, ...], Read], Expr]
"""`(step, index of the result, read) -> the result's element`."""

_Attrs = TypeVar("_Attrs", bound=Attrs)


def attrs_of(step: Step, kind: type[_Attrs]) -> _Attrs:
    """Return the step's attributes, which the operator's type relation has checked."""
    assert isinstance(step.attrs, kind), f"{step.operator} carries {kind.__name__}"
    return step.attrs


def broadcast_index(value: Value, index: tuple[Index, ...]) -> tuple[Index, ...]:
    """Return where a broadcast operand's element for an index of the result lies."""
    own = index[len(index) - len(value.shape) :]
    return tuple(
        Index() if extent == 1 else each for extent, each in zip(value.shape, own, strict=True)
    )


def read_broadcast(step: Step, number: int, index: tuple[Index, ...], read: Read) -> Expr:
    """Return an operand's element for an index of the result."""
    return read(number, broadcast_index(step.inputs[number], index))


def zero(dtype: DType) -> Literal:
    """Return 0 of a type."""
    return Literal(0, dtype)
