"""Substitution in types, what occurs in them, and equality up to the names of type parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, assert_never

from codesign.ir.relay.types import (
    UNKNOWN,
    Dim,
    FuncType,
    Hole,
    Length,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

Renaming: TypeAlias = Mapping[TypeVar, TypeVar]
"""Which type parameter on the right is meant by one on the left."""


def parts(type_: Type) -> tuple[Type, ...]:
    """Return the types that a type is made of; a function's result comes last."""
    match type_:
        case TensorType() | TypeVar() | Hole():
            return ()
        case TupleType(fields):
            return fields
        case FuncType(params, result):
            return (*params, result)
        case TypeCall(_, args):
            return args
        case RefType(value):
            return (value,)
        case _:
            assert_never(type_)


def with_parts(type_: Type, new: tuple[Type, ...]) -> Type:
    """Return the type with other parts, itself where every part is the old one."""
    if all(a is b for a, b in zip(parts(type_), new, strict=True)):
        return type_
    match type_:
        case TensorType() | TypeVar() | Hole():
            return type_
        case TupleType():
            return TupleType(new)
        case FuncType(_, _, type_params):
            return FuncType(new[:-1], new[-1], type_params)
        case TypeCall(name, _):
            return TypeCall(name, new)
        case RefType():
            return RefType(new[0])
        case _:
            assert_never(type_)


def substitute_type(type_: Type, values: Mapping[TypeVar, Type]) -> Type:
    """Return the type with type parameters replaced where the type itself does not bind them."""
    if not values:
        return type_
    if isinstance(type_, TypeVar):
        return values.get(type_, type_)
    if isinstance(type_, FuncType) and type_.type_params:
        values = {var: each for var, each in values.items() if var not in type_.type_params}
    return with_parts(type_, tuple(substitute_type(each, values) for each in parts(type_)))


def match_types(formal: Type, actual: Type, found: dict[TypeVar, Type]) -> None:
    """Note what the type parameters in one type mean where it is another; the first find counts."""
    if isinstance(formal, TypeVar):
        found.setdefault(formal, actual)
        return
    if type(formal) is type(actual):
        below = parts(formal), parts(actual)
        if len(below[0]) == len(below[1]):
            for mine, other in zip(*below, strict=True):
                match_types(mine, other, found)


def lengths_of(type_: Type) -> Iterator[Length]:
    """Yield the named lengths of a type, from left to right."""
    if isinstance(type_, TensorType):
        yield from (each for each in type_.lengths if each is not None)
    for each in parts(type_):
        yield from lengths_of(each)


def map_lengths(type_: Type, rule: Callable[[Length], Dim | Length]) -> Type:
    """Return the type with every named length replaced by what the rule makes of it."""
    if not isinstance(type_, TensorType):
        return with_parts(type_, tuple(map_lengths(each, rule) for each in parts(type_)))
    if not any(type_.lengths):
        return type_
    dims: list[Dim] = []
    names: list[Length | None] = []
    for dim, name in zip(type_.shape, type_.lengths, strict=True):
        new = dim if name is None else rule(name)
        dims.append(UNKNOWN if isinstance(new, Length) else new)
        names.append(new if isinstance(new, Length) else None)
    return TensorType(tuple(dims), type_.dtype, tuple(names) if any(names) else ())


def type_leaves(type_: Type) -> Iterator[Type]:
    """Yield the parts that have no parts: tensors, type parameters, holes, plain data types."""
    below = parts(type_)
    if not below:
        yield type_
    for each in below:
        yield from type_leaves(each)


def has_holes(type_: Type) -> bool:
    """Return whether something in the type is still to be found."""
    return any(isinstance(leaf, Hole) for leaf in type_leaves(type_))


def data_names(type_: Type) -> set[str]:
    """Return the names of the data types that a type mentions."""
    own = {type_.name} if isinstance(type_, TypeCall) else set()
    return own.union(*(data_names(each) for each in parts(type_)))


def free_type_variables(type_: Type) -> set[TypeVar]:
    """Return the type parameters that the type mentions and does not bind itself."""
    if isinstance(type_, TypeVar):
        return {type_}
    found = {var for each in parts(type_) for var in free_type_variables(each)}
    return found - set(type_.type_params) if isinstance(type_, FuncType) else found


def is_same_type(left: Type | None, right: Type | None, renaming: Renaming) -> bool:
    """Return whether types are equal up to the names of type parameters; `_` equals any `_`."""
    match left, right:
        case None, None:
            return True
        case Hole(), Hole():
            return True
        case TypeVar(), TypeVar():
            return renaming.get(left, left) == right
        case FuncType(_, _, mine), FuncType(_, _, others):
            if len(mine) != len(others):
                return False
            renaming = {**renaming, **dict(zip(mine, others, strict=True))}
        case TypeCall(a), TypeCall(b) if a != b:
            return False
        case TensorType(), TensorType():
            return left == right
        case None, _:
            return False
        case _, None:
            return False
        case _ if type(left) is not type(right):
            return False
        case _:
            pass
    below = parts(left), parts(right)
    return len(below[0]) == len(below[1]) and all(
        is_same_type(a, b, renaming) for a, b in zip(*below, strict=True)
    )


def accepts(expected: Type, found: Type) -> bool:
    """Return whether a value of type `found` may stand where `expected` is; `?` fits any length."""
    match expected, found:
        case TensorType(wanted, dtype), TensorType(shape, other):
            fits = len(wanted) == len(shape) and all(
                want is UNKNOWN or dim is UNKNOWN or want == dim
                for want, dim in zip(wanted, shape, strict=True)
            )
            return fits and dtype is other
        case (TupleType(), TupleType()) | (FuncType(), FuncType()):
            pass
        case _:
            return expected == found
    below = parts(expected), parts(found)
    return len(below[0]) == len(below[1]) and all(map(accepts, *below))
