"""Types in the residual program: what inference found, with type parameters as they are meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, final

from codesign.ir.relay.expr import Call, Expr, Function
from codesign.ir.relay.type_algebra import match_types, parts, substitute_type, type_leaves
from codesign.ir.relay.types import UNKNOWN, FuncType, Hole, TensorType, Type, TypeVar

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
        return substitute_type(signature.result, types)

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
    """Return a type with type parameters as they are meant."""
    return None if type_ is None else substitute_type(type_, types)


def is_checked(annotation: Type) -> bool:
    """Return whether the interpreter checks a length that an annotation leaves open."""
    return any(
        isinstance(leaf, TensorType) and UNKNOWN in leaf.shape for leaf in type_leaves(annotation)
    )
