"""Grows expressions of a wanted type from a scope, a size and a table of productions.

A production makes an expression of the wanted type or says that it cannot. Sizes are split among
the parts, so that every growth ends; a leaf is what the scope has, or the least value of the type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never, final

from codesign.ir.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    Let,
    RefNew,
    Tuple,
    Var,
)
from codesign.ir.relay.module import ConstructorDefinition, TypeDefinition
from codesign.ir.relay.type_algebra import free_type_variables, substitute_type
from codesign.ir.relay.types import (
    FuncType,
    Hole,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from experiments.laws.draw import Draw
from experiments.laws.operators import convert


@final
@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may use: values with their types, type parameters, loops around it."""

    values: tuple[tuple[Expr, Type], ...] = ()
    type_params: tuple[TypeVar, ...] = ()
    loops: int = 2
    """How many more loops may stand inside each other here."""

    def of(self, type_: Type) -> list[Expr]:
        """Return the values of exactly this type."""
        return [value for value, found in self.values if found == type_]

    def functions_to(self, result: Type) -> list[tuple[Expr, FuncType]]:
        """Return the monomorphic functions that give this type."""
        return [
            (value, found)
            for value, found in self.values
            if isinstance(found, FuncType) and found.result == result and not found.type_params
        ]

    def cells(self) -> list[tuple[Expr, RefType]]:
        """Return every cell."""
        return [(value, found) for value, found in self.values if isinstance(found, RefType)]

    def tensors(self) -> list[tuple[Expr, TensorType]]:
        """Return every tensor."""
        return [(value, found) for value, found in self.values if isinstance(found, TensorType)]

    def some_type(self, draw: Draw) -> Type:
        """Return the type of one of the values; of a cell what it holds."""
        found = draw.one_of(self.values)[1]
        return found.value if isinstance(found, RefType) else found

    def adding(self, *values: tuple[Expr, Type]) -> Scope:
        """Return the scope with more values."""
        return replace(self, values=(*self.values, *values))


Production: TypeAlias = Callable[["Writer", Type, Scope, int], Expr | None]
"""`(writer, wanted type, scope, size) -> expression`, or None where it has none of that type."""


@final
@dataclass(slots=True)
class Writer:
    """Grows one module: functions and data types are added as expressions need them."""

    draw: Draw
    productions: Mapping[Production, int]
    data_types: Mapping[str, TypeDefinition]
    library: Mapping[str, Function]
    """Polymorphic functions that are there already, by name."""
    annotates: bool = False
    """Whether `Nil` and its like stand in a `let` that says of what."""
    functions: dict[str, Function] = field(default_factory=dict)
    signatures: dict[str, FuncType] = field(default_factory=dict)
    _count: int = 0

    def name(self, stem: str) -> str:
        """Return a name that no other has."""
        self._count += 1
        return f"{stem}{self._count}"

    def variable(self, type_: Type, stem: str = "x") -> Var:
        """Return a new variable with its type as annotation."""
        return Var(self.name(stem), type_)

    def grow(self, type_: Type, scope: Scope, size: int) -> Expr:
        """Return an expression of a type with about `size` nodes."""
        if size <= 0:
            return self.leaf(type_, scope)
        known = scope.of(type_)
        if known and self.draw.chance(0.15):
            return self.draw.one_of(known)
        choices, weights = tuple(self.productions), tuple(self.productions.values())
        for _ in range(6):
            production = self.draw.weighted(choices, weights)
            found = production(self, type_, scope, size - 1)
            if found is not None:
                return found
        return self.introduce(type_, scope, size - 1)

    def leaf(self, type_: Type, scope: Scope) -> Expr:
        """Return what the scope has of a type, or its least value."""
        known = scope.of(type_)
        if known and (self.draw.chance(0.8) or isinstance(type_, TypeVar)):
            return self.draw.one_of(known)
        tensors = scope.tensors() if isinstance(type_, TensorType) else []
        if isinstance(type_, TensorType) and tensors and self.draw.chance(0.85):
            return convert(*self.draw.one_of(tensors), type_)
        return self.introduce(type_, scope, 0)

    def grow_all(self, types: Sequence[Type], scope: Scope, size: int) -> tuple[Expr, ...]:
        """Return an expression of each type; together they have about `size` nodes."""
        sizes = self.draw.parts(size, max(len(types), 1))
        return tuple(self.grow(each, scope, part) for each, part in zip(types, sizes, strict=False))

    def introduce(self, type_: Type, scope: Scope, size: int) -> Expr:
        """Return what the type's own form makes: a constant, a tuple, a function, a new cell."""
        match type_:
            case TensorType():
                return Constant(self.draw.array(type_))
            case TupleType(fields):
                return Tuple(self.grow_all(fields, scope, size))
            case FuncType():
                return self.function(type_, scope, size)
            case TypeCall():
                return self.construct(type_, scope, size)
            case RefType(value):
                return RefNew(self.grow(value, scope, size))
            case TypeVar():
                return self.draw.one_of(scope.of(type_))
            case Hole():
                raise AssertionError("no expression is wanted of a type that is not known")
            case _:
                assert_never(type_)

    def function(self, type_: FuncType, scope: Scope, size: int) -> Function:
        """Return a function literal of a type; it may use the scope."""
        params = tuple(self.variable(each, "p") for each in type_.params)
        inner = scope.adding(*zip(params, type_.params, strict=True))
        inner = replace(inner, type_params=(*scope.type_params, *type_.type_params))
        body = self.grow(type_.result, inner, size)
        return Function(params, body, type_.result, {}, type_.type_params)

    def construct(self, type_: TypeCall, scope: Scope, size: int) -> Expr:
        """Return a value of a data type: any constructor, or the least where the size is spent."""
        constructors = self.data_types[type_.name].constructors
        chosen = self.draw.one_of(constructors) if size > 0 else min(constructors, key=_weight)
        fields = self.fields_of(type_, chosen)
        made = Call(Constructor(chosen.name), self.grow_all(fields, scope, size))
        if not self.annotates or _tells_all(self.data_types[type_.name], chosen):
            return made
        var = self.variable(type_)
        return Let(var, made, var)

    def fields_of(self, type_: TypeCall, constructor: ConstructorDefinition) -> tuple[Type, ...]:
        """Return the types of a constructor's fields where its data type is applied to types."""
        names = self.data_types[type_.name].type_params
        chosen = dict(zip(names, type_.args, strict=True))
        return tuple(substitute_type(each, chosen) for each in constructor.fields)

    def add_function(self, function: Function, type_: FuncType, stem: str) -> str:
        """Add a function to the module; return its name."""
        name = self.name(stem)
        self.functions[name] = function
        self.signatures[name] = type_
        return name

    def value_type(self, scope: Scope, depth: int = 1) -> Type:
        """Return a random type of which the scope can make values."""
        draw = self.draw
        if scope.type_params and draw.chance(0.3):
            return draw.one_of(scope.type_params)
        if scope.values and draw.chance(0.3):
            return scope.some_type(draw)
        if depth == 0 or draw.chance(0.65):
            return draw.tensor_type()
        match draw.below(7):
            case 0 | 1:
                count = draw.one_of((0, 1, 2, 2, 3))
                return TupleType(tuple(self.value_type(scope, depth - 1) for _ in range(count)))
            case 2 | 3 | 4:
                return self.data_type(scope, depth)
            case _:
                return self.function_type(scope, depth)

    def data_type(self, scope: Scope, depth: int = 1) -> TypeCall:
        """Return a random data type, applied to random types."""
        definition = self.draw.one_of(
            [each for each in self.data_types.values() if not each.is_extern]
        )
        args = tuple(self.value_type(scope, depth - 1) for _ in definition.type_params)
        return TypeCall(definition.name, args)

    def function_type(self, scope: Scope, depth: int, result: Type | None = None) -> FuncType:
        """Return a random type of functions, to `result` where one is given."""
        params = tuple(
            self.value_type(scope, depth - 1) for _ in range(self.draw.one_of((0, 1, 1, 2)))
        )
        given = self.value_type(scope, depth - 1) if result is None else result
        return FuncType(params, given)


def _tells_all(definition: TypeDefinition, constructor: ConstructorDefinition) -> bool:
    """Return whether the fields tell all type parameters of the data type."""
    told = {var for each in constructor.fields for var in free_type_variables(each)}
    return told.issuperset(definition.type_params)


def _weight(constructor: ConstructorDefinition) -> int:
    """Return how much it takes to make the least value with a constructor."""
    return len(constructor.fields)
