"""Calls of operators that have an expansion, written as simpler operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import map_bodies
from codesign.diagnostics import CodesignError, Span
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import post_order, rewrite, rewrite_pairs, substitute
from codesign.ops.table import OPERATORS

_MOST_ROUNDS: Final = 8
"""Expansions of expansions: none of the table goes so deep."""


def expanded(module: Module) -> Module:
    """Return the module without calls of operators that have an expansion.

    Raises
    ------
    CodesignError
        An expansion needs a length that is not known.
    """
    for _ in range(_MOST_ROUNDS):
        if not any(map(_is_composed, post_order(*module.functions.values()))):
            return module
        types = infer_types(module)
        module = map_bodies(
            module,
            lambda body: rewrite_pairs(body, lambda old, new: _rule(old, new, types)),  # noqa: B023
        )
    raise AssertionError("expansions are of simpler operators")


def _is_composed(node: Expr) -> bool:
    match node:
        case Call(OpRef(name)):
            return name in OPERATORS and OPERATORS[name].expansion is not None
        case _:
            return False


def _rule(original: Expr, rebuilt: Expr, types: Mapping[Expr, Type]) -> Expr:
    match original, rebuilt:
        case Call(_, args), Call(OpRef(name), span=span) if _is_composed(rebuilt):
            expansion = OPERATORS[name].expansion
            assert expansion is not None, "the call is composed"
            # Stand-ins keep what is rewritten as small as the expansion.
            values = {
                Var(f"x{place}"): arg
                for place, arg in enumerate(rebuilt.args)
                if not isinstance(arg, Constant)
            }
            named: dict[Expr, Expr] = {arg: var for var, arg in values.items()}
            call = replace(rebuilt, args=tuple(named.get(arg, arg) for arg in rebuilt.args))
            try:
                made = expansion(call, tuple(types[each] for each in args))
            except CodesignError as error:
                placed = (replace(each, span=each.span or span) for each in error.diagnostics)
                raise CodesignError(*placed) from error
            return substitute(rewrite(made, lambda node: _placed(node, span)), values)
        case _:
            return rebuilt


def _placed(node: Expr, span: Span | None) -> Expr:
    """Return a call of an expansion where the composed call stood."""
    is_open = isinstance(node, Call) and node.span is None and span is not None
    return replace(node, span=span) if is_open else node
