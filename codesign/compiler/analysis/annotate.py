"""Writes the types that inference found where a pass may take away what told them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from codesign.compiler.analysis.boundaries import without_names
from codesign.compiler.analysis.call_order import callees
from codesign.compiler.analysis.infer_types import infer_types
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Call, Constructor, Expr, Function, GlobalVar, Let, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import match_types
from codesign.ir.relay.types import FuncType, Type
from codesign.ir.relay.types import TypeVar as TypeParameter
from codesign.ir.relay.visit import post_order, rewrite_module, rewrite_pairs


def without_unreached(module: Module, entries: tuple[str, ...] = ("main",)) -> Module:
    """Return the module with the functions that the entries reach; itself where that is all.

    A module without one of the entries is a library, and stays as it is.
    """
    return keeping_types(module, lambda typed: _reached(typed, entries))


def _reached(module: Module, entries: tuple[str, ...]) -> Module:
    if not all(entry in module.functions for entry in entries):
        return module
    reached: set[str] = set()
    pending = list(entries)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += callees(module, name)
    if len(reached) == len(module.functions):
        return module
    return module.with_functions(
        {name: each for name, each in module.functions.items() if name in reached}
    )


def with_parameter_types(module: Module) -> Module:
    """Return the module with a type at every parameter of a function; itself where they are there.

    A function that nothing calls any more tells the types of its parameters itself then. Lengths
    with names that callers have are `?` in it.
    """
    bare = [
        param
        for node in post_order(*module.functions.values())
        if isinstance(node, Function)
        for param in node.params
        if param.annotation is None
    ]
    if not bare:
        return module
    types = infer_types(module)
    typed: dict[Expr, Var] = {
        each: replace(each, annotation=without_names(types[each])) for each in bare
    }
    return rewrite_module(module, lambda node: typed.get(node, node))


def keeping_types(module: Module, transform: Callable[[Module], Module]) -> Module:
    """Return what a transformation that takes code away makes of a well-typed module.

    Where what it takes away told the type of what is left, it is given a module that says all
    types: after `let %l = Nil; let %m = Cons(1, %l); %l` without %m the list is one of anything.
    """
    try:
        made = transform(module)  # may itself ask for types between its steps
        if made is not module:
            infer_types(made)
    except CodesignError:
        return transform(_with_all_types(module))
    return made


def _with_all_types(module: Module) -> Module:
    """Return the module in which the type of a value follows from what it is made of.

    Parameters, results and variables have annotations; so have calls that choose a type of which
    the arguments say nothing.
    """
    types = infer_types(module)
    signatures = {name: types[each] for name, each in module.functions.items()}
    for definition, constructor in module.constructors().values():
        signatures[constructor.name] = definition.constructor_type(constructor)
    named: dict[Expr, Var] = {}
    for node in post_order(*module.functions.values()):
        bare = node.params if isinstance(node, Function) else ()
        if isinstance(node, Let) and not _is_polymorphic(types[node.value]):
            bare = (node.var,)
        for var in bare:
            if var.annotation is None:
                type_ = types[node.value] if isinstance(node, Let) else types[var]
                named[var] = replace(var, annotation=without_names(type_))

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        match rebuilt:
            case Var():
                return named.get(original, rebuilt)
            case Function(result_type=None):
                signature = types[original]
                assert isinstance(signature, FuncType), "a function has a function's type"
                return replace(rebuilt, result_type=without_names(signature.result))
            case Call(Constructor(name) | GlobalVar(name)):
                assert isinstance(original, Call), "a call is rebuilt as one"
                if not _chooses(original, signatures[name], types):
                    return rebuilt
                chosen = Var("chosen", without_names(types[original]), rebuilt.span)
                return Let(chosen, rebuilt, chosen, rebuilt.span)
            case _:
                return rebuilt

    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        new = rewrite_pairs(function, rule)
        assert isinstance(new, Function), "a function stays one"
        functions[name] = new
    return module.with_functions(functions)


def _is_polymorphic(type_: Type) -> bool:
    return isinstance(type_, FuncType) and bool(type_.type_params)


def _chooses(call: Call, signature: Type, types: Mapping[Expr, Type]) -> bool:
    """Return whether a type parameter of what is called is not told by the arguments."""
    assert isinstance(signature, FuncType), "a function has a function's type"
    told: dict[TypeParameter, Type] = {}
    for formal, arg in zip(signature.params, call.args, strict=True):
        match_types(formal, types[arg], told)
    return not told.keys() >= set(signature.type_params)
