"""Which expressions can be computed for neighbours at once, and other facts of their operands."""

from __future__ import annotations

from typing import assert_never

from codesign.dtypes import DType
from codesign.ir.tensor.compute import (
    Accumulator,
    Apply,
    Convert,
    Expr,
    Guarded,
    Literal,
    Load,
    Position,
    Reduce,
)
from codesign.ir.tensor.index import Axis, Element, Index
from codesign.ir.tensor.ranges import fits


def is_vectorizable(expr: Expr, axis: Axis) -> bool:
    """Whether neighbours on an axis can be computed in the lanes of a vector."""
    pending = [expr]
    seen: set[Expr] = set()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        match each:
            case Load(buffer, index):
                position = buffer.address(index)
                table = table_element(position)
                if position.factor(axis) in (0, 1):
                    continue
                if table is None:
                    return False
                pending.append(table)
            case Apply(_, args, _):
                pending += args
            case Convert(value, _):
                pending.append(value)
            case Position(index):
                if index.factor(axis) is None:
                    return False
            case Guarded(conditions, body, otherwise):
                if any(index.uses(axis) for index, _, _ in conditions):
                    return False
                pending += [body, otherwise]
            case Reduce(_, _, body, _):
                pending.append(body)
            case Literal() | Accumulator():
                pass
            case _:
                assert_never(each)
    return True


def table_element(position: Index) -> Expr | None:
    """Return the expression that a position is, but for a constant; None where it is more."""
    match position.terms:
        case ((Element(expr), 1),):
            assert isinstance(
                expr, Literal | Load | Apply | Convert | Position | Guarded | Reduce | Accumulator
            ), "an element of an index is a scalar expression"
            return expr
        case _:
            return None


def may_overflow(value: Expr, dtype: DType) -> bool:
    """Whether a float may be no integer of the type: then conversion saturates, NaN gives 0."""
    return value.dtype.is_float and dtype.is_integer and not fits(value, dtype)


def reads_directly(load: Load, dtype: DType) -> bool:
    """Whether the wider storage of an integer may be converted without narrowing it first."""
    storage = load.buffer.storage
    return storage is not load.dtype and (dtype.is_float or dtype.bits >= storage.bits)
