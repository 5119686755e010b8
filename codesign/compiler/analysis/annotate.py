"""Writes the types that inference found where a pass may take away what told them."""

from __future__ import annotations

from dataclasses import replace

from codesign.compiler.analysis.infer_types import infer_types
from codesign.ir.relay.expr import Expr, Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order, rewrite_module


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
