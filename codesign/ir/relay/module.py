"""A Relay module: global functions and data types by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import final

from codesign.diagnostics import Span
from codesign.ir.relay.expr import Function
from codesign.ir.relay.types import FuncType, Type, TypeCall, TypeVar


@final
@dataclass(frozen=True, slots=True)
class ConstructorDefinition:
    """`Cons(A, List[A])`: a way to make a value of the data type, and the types of its fields."""

    name: str
    fields: tuple[Type, ...] = ()
    span: Span | None = field(default=None, compare=False)


@final
@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """`type List[A] { Cons(A, List[A]), Nil }`, or `extern type Name`, whose values are opaque."""

    name: str
    type_params: tuple[TypeVar, ...]
    constructors: tuple[ConstructorDefinition, ...]
    is_extern: bool = False
    span: Span | None = field(default=None, compare=False)

    def constructor_type(self, constructor: ConstructorDefinition) -> FuncType:
        """Return the constructor's type as a function: `fn[A] (A, List[A]) -> List[A]`."""
        return FuncType(constructor.fields, TypeCall(self.name, self.type_params), self.type_params)


@final
@dataclass(frozen=True, slots=True)
class Module:
    """Global functions and data types by name; `main` is the entry.

    The name of a constructor is unique in the module.
    """

    functions: Mapping[str, Function]
    data_types: Mapping[str, TypeDefinition] = field(default_factory=dict)

    @property
    def main(self) -> Function:
        """The entry function."""
        return self.functions["main"]

    def with_main(self, main: Function) -> Module:
        """Return the module with another entry function."""
        return self.with_functions({**self.functions, "main": main})

    def with_functions(self, functions: Mapping[str, Function]) -> Module:
        """Return the module with other functions and the same data types."""
        return replace(self, functions=functions)

    def constructors(self) -> dict[str, tuple[TypeDefinition, ConstructorDefinition]]:
        """Return every constructor by name, with the data type that it belongs to."""
        return {
            constructor.name: (definition, constructor)
            for definition in self.data_types.values()
            for constructor in definition.constructors
        }
