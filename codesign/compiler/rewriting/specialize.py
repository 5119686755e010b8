"""Copies of functions with type parameters, one for each choice of types that is used.

    def @id[A](%x: A) -> A { %x }
    def @main(%n: int32) { (@id(%n), @id(True)) }
becomes
    def @id_1(%x: int32) -> int32 { %x }
    def @id_2(%x: bool) -> bool { %x }
    def @main(%n: int32) { (@id_1(%n), @id_2(True)) }

A polymorphic function or constructor that is an argument is chosen by what the call tells of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, final

from codesign.compiler.analysis.annotate import with_parameter_types, without_unreached
from codesign.compiler.analysis.boundaries import without_names
from codesign.compiler.analysis.infer_types import infer_types
from codesign.diagnostics import CodesignError, Problem
from codesign.ir.relay.expr import Call, Constructor, Expr, Function, GlobalVar, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import Names, fresh_copy
from codesign.ir.relay.type_algebra import (
    free_type_variables,
    match_types,
    substitute_type,
    type_leaves,
)
from codesign.ir.relay.types import FuncType, TupleType, Type
from codesign.ir.relay.types import TypeVar as TypeParameter
from codesign.ir.relay.visit import rewrite_pairs

_MOST_COPIES: Final = 200
"""Copies after which a function is taken to call itself at ever other types."""

_MOST_LEAVES: Final = 1000
"""Likewise, leaves of a chosen type: a pair of what it was doubles them in each call."""


def specialized(module: Module) -> Module:
    """Return the module where no function that main reaches has type parameters, if it can be so.

    Local functions with type parameters stay, and so do functions that nothing tells the types of.

    Raises
    ------
    CodesignError
        A function calls itself at ever other types.
    """
    if not any(function.type_params for function in module.functions.values()):
        return module
    work = _Work(with_parameter_types(module))
    while work.round():
        pass
    return without_unreached(work.module)


@final
class _Work:
    def __init__(self, module: Module) -> None:
        self.module = module
        self._names = Names(module.functions)
        self._copies: dict[tuple[str, tuple[Type, ...]], str] = {}
        self._types: Mapping[Expr, Type] = {}

    def round(self) -> bool:
        """Replace the uses in functions without type parameters; return whether any was there."""
        self._types = infer_types(self.module)
        functions = dict(self.module.functions)
        known = len(self._copies)
        for name, function in self.module.functions.items():
            if not function.type_params:
                made = rewrite_pairs(function, self._rule)
                assert isinstance(made, Function), "a function stays one"
                functions[name] = made
        for (name, values), copy in list(self._copies.items())[known:]:
            functions[copy] = self._copied(name, values)
        before = self.module.functions
        is_changed = any(functions[name] is not each for name, each in before.items())
        self.module = self.module.with_functions(functions)
        return is_changed

    def _copied(self, name: str, values: tuple[Type, ...]) -> Function:
        function = self.module.functions[name]
        told = dict(zip(function.type_params, values, strict=True))
        return fresh_copy(replace(function, type_params=()), Names(), types=told)

    def _rule(self, original: Expr, rebuilt: Expr) -> Expr:
        match original, rebuilt:
            case Call(callee, args), Call():
                signature = self._types.get(callee)  # operators have none
                if not isinstance(signature, FuncType):
                    return rebuilt
                told = self._told(original, signature)
                chosen = [
                    self._chosen(old, new, substitute_type(formal, told))
                    for old, new, formal in zip(args, rebuilt.args, signature.params, strict=True)
                ]
                head = rebuilt.callee
                if isinstance(callee, GlobalVar) and signature.type_params:
                    head = self._copy(callee, signature, told)
                is_same = head is rebuilt.callee and all(
                    one is other for one, other in zip(chosen, rebuilt.args, strict=True)
                )
                return rebuilt if is_same else replace(rebuilt, callee=head, args=tuple(chosen))
            case _:
                return rebuilt

    def _told(self, call: Call, signature: FuncType) -> dict[TypeParameter, Type]:
        """Return what arguments and result tell of the type parameters of what is called."""
        told: dict[TypeParameter, Type] = {}
        for formal, arg in zip(signature.params, call.args, strict=True):
            if not _is_polymorphic(self._types[arg]):
                match_types(formal, self._types[arg], told)
        match_types(signature.result, self._types[call], told)
        return {key: without_names(type_) for key, type_ in told.items()}

    def _chosen(self, old: Expr, new: Expr, wanted: Type) -> Expr:
        """Return an argument as what it is chosen to be, where that is known."""
        signature = self._types[old]
        is_known = isinstance(wanted, FuncType) and not free_type_variables(wanted)
        if not _is_polymorphic(signature) or not is_known:
            return new
        assert isinstance(signature, FuncType), "only functions are polymorphic"
        assert isinstance(wanted, FuncType), "the wanted type is known to be one"
        if isinstance(old, GlobalVar):
            told: dict[TypeParameter, Type] = {}
            match_types(replace(signature, type_params=()), wanted, told)
            return self._copy(old, signature, told)
        if isinstance(old, Constructor):
            params = tuple(Var(f"x{place}", type_) for place, type_ in enumerate(wanted.params))
            return Function(params, Call(old, params, None, old.span), wanted.result)
        return new

    def _copy(
        self, callee: GlobalVar, signature: FuncType, told: Mapping[TypeParameter, Type]
    ) -> GlobalVar:
        values = tuple(told.get(each, TupleType(())) for each in signature.type_params)
        key = callee.name, values
        if key not in self._copies:
            if len(self._copies) >= _MOST_COPIES or any(map(_is_huge, values)):
                what = f"@{callee.name} calls itself at ever other types"
                raise CodesignError(Problem(what=what, span=callee.span))
            self._copies[key] = self._names.fresh(callee.name)
        return replace(callee, name=self._copies[key])


def _is_huge(type_: Type) -> bool:
    return any(True for _ in islice(type_leaves(type_), _MOST_LEAVES, None))


def _is_polymorphic(type_: Type) -> bool:
    return isinstance(type_, FuncType) and bool(type_.type_params)
