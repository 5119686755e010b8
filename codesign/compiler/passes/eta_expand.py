"""eta-expand: write constructors and global functions that are values as functions.

    @map(Some, %xs)
becomes
    @map(fn[A] (%x0: A) -> Option[A] { Some(%x0) }, %xs)

so that a backend meets constructors, and with `globals_too` global functions, only where they are
called. Laws: the answer is the same bit for bit, so are the types; a second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import Call, Constructor, Expr, Function, GlobalVar, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import Names, type_parameter_names
from codesign.ir.relay.type_algebra import substitute_type
from codesign.ir.relay.types import FuncType, Type
from codesign.ir.relay.types import TypeVar as TypeParameter
from codesign.ir.relay.visit import children, rewrite_module, with_children


@final
@dataclass(frozen=True, slots=True)
class EtaExpand:
    """Expand constructors, and global functions on demand, that are not called where they stand."""

    name: ClassVar[str] = "eta-expand"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    constructors: bool = True
    globals_too: bool = False

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such values as functions."""
        signatures: dict[str, FuncType] = {}
        if self.constructors:
            for name, (definition, constructor) in module.constructors().items():
                signatures[name] = definition.constructor_type(constructor)
        if self.globals_too:
            signatures |= _signatures(module, infer_types(module))
        expansion = _Expansion(signatures, type_parameter_names(module))
        return rewrite_module(module, expansion.rule)


def _signatures(module: Module, types: Mapping[Expr, Type]) -> dict[str, FuncType]:
    found: dict[str, FuncType] = {}
    for name, function in module.functions.items():
        type_ = types[function]
        assert isinstance(type_, FuncType), "a function has a function's type"
        found[f"@{name}"] = type_
    return found


@final
class _Expansion:
    def __init__(self, signatures: Mapping[str, FuncType], names: Names) -> None:
        self._signatures = signatures
        self._names = names
        self._made: dict[Expr, Expr] = {}

    def rule(self, node: Expr) -> Expr:
        below = children(node)
        first = 1 if isinstance(node, Call) else 0
        return with_children(node, (*below[:first], *map(self._value, below[first:])))

    def _value(self, node: Expr) -> Expr:
        match node:
            case Constructor(name):
                signature = self._signatures.get(name)
            case GlobalVar(name):
                signature = self._signatures.get(f"@{name}")
            case _:
                return node
        if signature is None:
            return node
        if node not in self._made:
            self._made[node] = self._function(node, signature)
        return self._made[node]

    def _function(self, callee: Constructor | GlobalVar, signature: FuncType) -> Function:
        own = tuple(TypeParameter(self._names.fresh(p.name)) for p in signature.type_params)
        values: dict[TypeParameter, Type] = dict(zip(signature.type_params, own, strict=True))
        params = tuple(
            Var(f"x{index}", substitute_type(each, values), callee.span)
            for index, each in enumerate(signature.params)
        )
        result = substitute_type(signature.result, values)
        body = Call(callee, params, None, callee.span)
        return Function(params, body, result, {}, own, callee.span)
