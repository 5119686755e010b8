"""Writes the types that inference found where a pass may take away what told them."""

from __future__ import annotations

from dataclasses import replace

from codesign.compiler.analysis.call_order import callees
from codesign.compiler.analysis.infer_types import infer_types
from codesign.ir.relay.expr import Expr, Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order, rewrite_module


def without_unreached(module: Module, entries: tuple[str, ...] = ("main",)) -> Module:
    """Return the module with the functions that the entries reach; itself where that is all.

    Parameters keep the types that calls in other functions told. A module without one of the
    entries is a library, and stays as it is.
    """
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
    typed = with_parameter_types(module)
    return typed.with_functions(
        {name: each for name, each in typed.functions.items() if name in reached}
    )


def with_parameter_types(module: Module) -> Module:
    """Return the module with a type at every parameter of a function; itself where they are there.

    A function that nothing calls any more tells the types of its parameters itself then.
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
    typed: dict[Expr, Var] = {each: replace(each, annotation=types[each]) for each in bare}
    return rewrite_module(module, lambda node: typed.get(node, node))
