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

from codesign.compiler.analysis.call_order import callees, callees_first
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import Call, Expr, Function, GlobalVar, Let, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import ATOMS, Names, fresh_copy, type_parameter_names
from codesign.ir.relay.types import Hole, TensorType, Type
from codesign.ir.relay.types import TypeVar as TypeParameter
from codesign.ir.relay.visit import rewrite


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
        wanted = {name for name in marked if not _calls_itself(module, name)}
        if not wanted:
            return module
        names = type_parameter_names(module)
        known = {function: name for name, function in module.functions.items()}
        functions = dict(module.functions)
        for function in callees_first(module):
            new = rewrite(function, lambda node: _inlined(node, functions, wanted, names))
            assert isinstance(new, Function), "a function stays one"
            functions[known[function]] = new
        same = all(functions[name] is old for name, old in module.functions.items())
        return module if same else module.with_functions(functions)


def _calls_itself(module: Module, name: str) -> bool:
    reached, pending = set[str](), callees(module, name)
    while pending:
        each = pending.pop()
        if each not in reached:
            reached.add(each)
            pending += callees(module, each)
    return name in reached


def _inlined(node: Expr, functions: dict[str, Function], wanted: set[str], names: Names) -> Expr:
    match node:
        case Call(GlobalVar(name), args) if name in wanted:
            return _body(functions[name], args, names)
        case _:
            return node


def _body(function: Function, args: tuple[Expr, ...], names: Names) -> Expr:
    types: dict[TypeParameter, Type] = {each: Hole() for each in function.type_params}
    plain = replace(function, type_params=(), attributes={})
    copy = fresh_copy(plain, names, types=types)
    atoms: dict[Expr, Expr] = {}
    lets: list[tuple[Var, Expr]] = []
    for param, arg in zip(copy.params, args, strict=True):
        if isinstance(arg, ATOMS) and (param.annotation is None or _is_static(param.annotation)):
            atoms[param] = arg
        else:
            lets.append((param, arg))
    body = rewrite(copy.body, lambda node: atoms.get(node, node))
    if copy.result_type is not None and not isinstance(copy.result_type, TensorType):
        result = Var("result", copy.result_type)
        body = Let(result, body, result, function.span)
    for param, arg in reversed(lets):
        body = Let(param, arg, body, function.span)
    return body


def _is_static(type_: Type) -> bool:
    if isinstance(type_, Hole):
        return True
    return isinstance(type_, TensorType) and all(isinstance(dim, int) for dim in type_.shape)
