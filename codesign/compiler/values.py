"""What Relay programs compute: tensors, tuples, values of data types, cells, and functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard, assert_never, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.expr import (
    Function,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
    Wildcard,
)
from codesign.ir.relay.type_algebra import accepts
from codesign.ir.relay.types import Length, TensorType, TupleType, Type, type_text
from codesign.ops.operator import Value

__all__ = [
    "Cell",
    "Closure",
    "ConstructorFunction",
    "DataValue",
    "Result",
    "check_fits",
    "check_lengths",
    "field_of",
    "first_order",
    "fit",
    "is_first_order",
    "kind_of",
    "truth_of",
    "value_type",
]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function and the values of its free variables."""

    function: Function
    captured: Mapping[Var, Result]


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConstructorFunction:
    """A constructor as a function of its fields."""

    name: str


@final
@dataclass(slots=True, eq=False, repr=False)
class Cell:
    """What `ref` made: holds one value, which `ref_write` replaces; identity is the cell."""

    content: Result

    def __repr__(self) -> str:
        return "Cell(…)"


Result: TypeAlias = "Array | tuple[Result, ...] | Closure | ConstructorFunction | DataValue | Cell"
"""What any expression evaluates to."""


def value_type(value: Value) -> Type:
    """Return the type of a value that is made of tensors."""
    if isinstance(value, tuple):
        return TupleType(tuple(value_type(each) for each in value))
    return TensorType(value.shape, DType.of(value.dtype))


def first_order(result: Result) -> Value:
    """Return a result that is made of tensors; refuse others, which no tensor operator takes."""
    match result:
        case np.ndarray():
            return result
        case tuple():
            return tuple(map(first_order, result))
        case _:
            found = f"found {kind_of(result)}"
            raise CodesignError.of("a tensor or a tuple of tensors is expected", found=found)


def is_first_order(result: Result) -> TypeGuard[Value]:
    """Return whether a result is made of tensors."""
    if isinstance(result, tuple):
        return all(map(is_first_order, result))
    return isinstance(result, np.ndarray)


def kind_of(result: Result) -> str:
    """Return what a message calls a result."""
    match result:
        case np.ndarray():
            return type_text(value_type(result))
        case tuple():
            return f"a tuple of {len(result)}"
        case Closure() | ConstructorFunction():
            return "a function"
        case DataValue(constructor):
            return f"a value of constructor {constructor}"
        case Cell():
            return "a cell"
        case _:
            assert_never(result)


def field_of(result: Result, index: int) -> Result:
    """Return a field of a tuple; refuse anything else."""
    if not isinstance(result, tuple):
        raise CodesignError.of("a field is taken of no tuple")
    return result[index]


def truth_of(result: Result) -> bool:
    """Return the value of a condition; refuse what is no tensor."""
    if not isinstance(result, np.ndarray):
        raise CodesignError.of("a condition is a scalar of bool")
    return bool(result)


def check_fits(what: str, annotation: Type | None, result: Result) -> None:
    """Refuse tensors of another shape or element type than the annotation of a variable says."""
    match annotation, result:
        case TensorType(), np.ndarray():
            found = TensorType(result.shape, DType.of(result.dtype))
            if not accepts(annotation, found):
                shown = f"found {type_text(found)}, expected {type_text(annotation)}"
                raise CodesignError.of(f"{what} does not fit", found=shown)
        case TupleType(types), tuple() if len(types) == len(result):
            for each, field in zip(types, result, strict=True):
                check_fits(what, each, field)
        case ((TensorType() | TupleType()), _):
            shown = f"found {kind_of(result)}, expected {type_text(annotation)}"
            raise CodesignError.of(f"{what} does not fit", found=shown)
        case _:
            pass


def check_lengths(params: Iterable[Var], args: Iterable[Result]) -> None:
    """Refuse arguments that fit their parameters one by one where a name is two lengths."""
    known: dict[Length, tuple[int, str]] = {}
    waiting = deque(
        (f"%{param.name}", param.annotation, arg)
        for param, arg in zip(params, args, strict=True)
        if param.annotation is not None
    )
    while waiting:
        match waiting.popleft():
            case what, TensorType(lengths=lengths), np.ndarray() as array:
                for name, dim in zip(lengths, array.shape, strict=False):
                    if name is None:
                        continue
                    before, where = known.setdefault(name, (dim, what))
                    if before != dim:
                        found = f"found {before} in {where} and {dim} in {what}"
                        raise CodesignError.of(f"{name.name} is two lengths", found=found)
            case what, TupleType(types), tuple() as fields:
                waiting.extend((what, *each) for each in zip(types, fields, strict=True))
            case _:
                pass


def fit(pattern: Pattern, result: Result) -> dict[Var, Result] | None:
    """Return what a pattern binds its variables to, or None where it does not fit."""
    bound: dict[Var, Result] = {}
    waiting = [(pattern, result)]
    while waiting:
        match waiting.pop():
            case Wildcard(), _:
                pass
            case PatternVar(var), found:
                bound[var] = found
            case PatternConstructor(name, fields), DataValue(constructor, values):
                if name != constructor:
                    return None
                waiting.extend(zip(fields, values, strict=True))
            case PatternTuple(fields), tuple() as values:
                waiting.extend(zip(fields, values, strict=True))
            case _, found:
                raise CodesignError.of("a pattern meets another value", found=kind_of(found))
    return bound
