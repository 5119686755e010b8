"""Calls of operators that have an expansion, written as simpler operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import map_bodies
from codesign.diagnostics import CodesignError, Span
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef, Project, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import type_leaves
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ir.relay.visit import post_order, rewrite, rewrite_pairs, substitute
from codesign.ops.gradients.expressions import cast
from codesign.ops.operator import Expansion
from codesign.ops.table import OPERATORS

_MOST_ROUNDS: Final = 8
"""Expansions of expansions: none of the table goes so deep."""


def expanded(module: Module) -> Module:
    """Return the module without calls of operators that have an expansion.

    What gives float16 is computed in float32 and rounded at the end.

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
                own = tuple(types[each] for each in args)
                made = _in_single(call, own, types[original], expansion)
            except CodesignError as error:
                placed = (replace(each, span=each.span or span) for each in error.diagnostics)
                raise CodesignError(*placed) from error
            return substitute(rewrite(made, lambda node: _placed(node, span)), values)
        case _:
            return rebuilt


def _in_single(call: Call, types: tuple[Type, ...], result: Type, expansion: Expansion) -> Expr:
    """Expand with operands of float16 widened: what lies between may be too great for them."""
    is_half = isinstance(result, TensorType) and result.dtype is DType.FLOAT16
    if not is_half or not any(map(_has_half, types)):
        return expansion(call, types)
    wide = tuple(map(_wide_type, types))
    args = tuple(map(_wide_value, call.args, types))
    return cast(expansion(replace(call, args=args), wide), DType.FLOAT16)


def _has_half(type_: Type) -> bool:
    leaves = type_leaves(type_)
    return any(isinstance(each, TensorType) and each.dtype is DType.FLOAT16 for each in leaves)


def _wide_type(type_: Type) -> Type:
    match type_:
        case TensorType(dtype=DType.FLOAT16):
            return replace(type_, dtype=DType.FLOAT32)
        case TupleType(fields):
            return TupleType(tuple(map(_wide_type, fields)))
        case _:
            return type_


def _wide_value(value: Expr, type_: Type) -> Expr:
    match type_:
        case TensorType(dtype=DType.FLOAT16):
            return cast(value, DType.FLOAT32)
        case TupleType(fields) if _has_half(type_):
            own = (_wide_value(Project(value, at), each) for at, each in enumerate(fields))
            return Tuple(tuple(own))
        case _:
            return value


def _placed(node: Expr, span: Span | None) -> Expr:
    """Return a call of an expansion where the composed call stood."""
    is_open = isinstance(node, Call) and node.span is None and span is not None
    return replace(node, span=span) if is_open else node
