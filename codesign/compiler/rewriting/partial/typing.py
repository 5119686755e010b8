"""Types in the residual program: what inference found, with type parameters as they are meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, final

from codesign.compiler.analysis.boundaries import without_names
from codesign.ir.relay.expr import Call, Expr, Function
from codesign.ir.relay.type_algebra import match_types, parts, substitute_type
from codesign.ir.relay.types import FuncType, Hole, Type, TypeVar

Types: TypeAlias = Mapping[TypeVar, Type]
"""What type parameters mean."""


@final
class Typing:
    """The types of the nodes of a module."""

    def __init__(self, types: Mapping[Expr, Type]) -> None:
        self._types = types

    def of(self, node: Expr, types: Types) -> Type | None:
        """Return the type of a node, where it has one."""
        return substituted(self._types.get(node), types)

    def result(self, function: Function, types: Types) -> Type:
        """Return the type of what a function gives."""
        signature = self._types[function]
        assert isinstance(signature, FuncType), "a function has a function's type"
        return without_names(substitute_type(signature.result, types))

    def meaning(self, function: Function, call: Call, types: Types) -> Types:
        """Return what the type parameters of a called function mean in a call."""
        if not function.type_params:
            return {}
        found: dict[TypeVar, Type] = {}
        signature = self._types[function]
        actual = (*(self.of(each, types) for each in call.args), self.of(call, types))
        for formal, type_ in zip(parts(signature), actual, strict=True):
            if type_ is not None:
                match_types(formal, type_, found)
        return {each: found.get(each) or Hole() for each in function.type_params}


def substituted(type_: Type | None, types: Types) -> Type | None:
    """Return a type with type parameters as they are meant, without names of lengths.

    What is written down may come to lie in another function, where a name means nothing.
    """
    return None if type_ is None else without_names(substitute_type(type_, types))
