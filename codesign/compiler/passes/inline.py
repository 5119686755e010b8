"""inline: put the bodies of functions marked `Inline=1` where they are called.

    def @twice(%x: int32, Inline=1) { add(%x, %x) }
    def @main(%n: int32) { @twice(multiply(%n, 3)) }
becomes
    def @main(%n: int32) { let %x = multiply(%n, 3); add(%x, %x) }

Arguments are computed once, from left to right, before the body. A function that calls itself, also
through others, stays called. A function that is only passed on as a value stays what it is.

Laws: the answer is the same bit for bit, so are the types; a second run changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from codesign.compiler.analysis.annotate import with_parameter_types
from codesign.compiler.analysis.boundaries import (
    compares_lengths,
    is_boundary,
    with_boundaries,
    without_names,
)
from codesign.compiler.analysis.call_order import callees_first, recursive_functions
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import Call, Expr, Function, GlobalVar, Let, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import ATOMS, Names, fresh_copy, type_parameter_names
from codesign.ir.relay.type_algebra import lengths_of
from codesign.ir.relay.types import Hole, TensorType, Type
from codesign.ir.relay.types import TypeVar as TypeParameter
from codesign.ir.relay.visit import rewrite, rewrite_pairs


@final
@dataclass(frozen=True, slots=True)
class Inline:
    """Inline calls of the functions that ask for it."""

    name: ClassVar[str] = "inline"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module without calls of such functions."""
        marked = [name for name, each in module.functions.items() if each.attributes.get("Inline")]
        checking = {name for name in marked if compares_lengths(module.functions[name])}
        wanted = set(marked) - recursive_functions(module) - checking
        if not wanted:
            return module
        typed = with_parameter_types(with_boundaries(module))
        names = type_parameter_names(module)
        known = {function: name for name, function in typed.functions.items()}
        functions = dict(typed.functions)
        types = infer_types(typed)

        def rule(original: Expr, rebuilt: Expr) -> Expr:
            match original, rebuilt:
                case Call(args=args), Call(GlobalVar(name)) if name in wanted:
                    given = tuple(types[each] for each in args)
                    return _body(functions[name], rebuilt, given, types[original], names)
                case _:
                    return rebuilt

        for function in callees_first(typed):
            new = rewrite_pairs(function, rule)
            assert isinstance(new, Function), "a function stays one"
            functions[known[function]] = new
        same = all(functions[name] is old for name, old in typed.functions.items())
        return module if same else module.with_functions(functions)


def _body(
    function: Function, call: Call, given: tuple[Type, ...], result_type: Type, names: Names
) -> Expr:
    """Return the body for a call with arguments of the types `given`."""
    types: dict[TypeParameter, Type] = {each: Hole() for each in function.type_params}
    has_names = any(
        param.annotation and any(lengths_of(param.annotation)) for param in function.params
    )
    plain = replace(function, type_params=(), attributes={})
    copy = fresh_copy(_without_names(plain) if has_names else plain, names, types=types)
    atoms: dict[Expr, Expr] = {}
    lets: list[tuple[Var, Expr]] = []
    for param, arg, found in zip(copy.params, call.args, given, strict=True):
        if isinstance(arg, ATOMS) and _is_known_without(param.annotation, found):
            atoms[param] = arg
        else:
            lets.append((param, arg))
    body = rewrite(copy.body, lambda node: atoms.get(node, node))
    if has_names or not isinstance(copy.result_type, TensorType | None):
        result = Var("result", result_type if has_names else copy.result_type)
        body = Let(result, body, result, function.span)
    for param, arg in reversed(lets):
        body = Let(param, arg, body, function.span)
    return body


def _without_names(function: Function) -> Function:
    """Return the function with `?` for lengths with names, which mean nothing elsewhere."""

    def rule(node: Expr) -> Expr:
        match node:
            case Var(annotation=annotation) if annotation is not None:
                new = without_names(annotation)
                return node if new is annotation else replace(node, annotation=new)
            case Function(result_type=result) if result is not None:
                return replace(node, result_type=without_names(result))
            case _:
                return node

    found = rewrite(function, rule)
    assert isinstance(found, Function), "a function stays one"
    return found


def _is_known_without(annotation: Type | None, found: Type) -> bool:
    """Return whether an atom of a type says all that a parameter's annotation does."""
    if annotation is None or isinstance(annotation, Hole):
        return True
    return isinstance(annotation, TensorType) and not is_boundary(annotation, found)
