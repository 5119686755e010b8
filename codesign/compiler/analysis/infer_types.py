"""infer-types: the type of every expression of a module.

One pass over the expressions, callees before callers, makes types with holes and says what flows
into what; operators' relations, fields of tuples and uses of functions that are not known yet wait
in a work list until they are. Functions are polymorphic through explicit type parameters only. All
mistakes of a module are collected into one error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from codesign.compiler.analysis.call_order import callees_first
from codesign.compiler.analysis.inference import Inference
from codesign.ir.relay.expr import Expr, Var
from codesign.ir.relay.kinds import data_type_mistakes
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type

_RECENT: Final[deque[tuple[Module, Mapping[Expr, Type]]]] = deque(maxlen=2)
"""The last modules and their types: modules never change, and passes ask for the same one."""


def infer_types(module: Module) -> Mapping[Expr, Type]:
    """Return the type of every expression of every function; operators themselves have none.

    Raises
    ------
    CodesignError
        All mistakes of the module together.
    """
    for index, (known, types) in enumerate(_RECENT):
        if known is module:
            _RECENT.rotate(-1 if index == 0 else 0)
            return types
    inference = Inference(module)
    inference.mistakes.extend(data_type_mistakes(module))
    for function in callees_first(module):
        inference.infer(function)
    found = MappingProxyType(inference.finish())
    _RECENT.append((module, found))
    return found


def infer_expression(expr: Expr, types: Mapping[Var, Type] | None = None) -> Mapping[Expr, Type]:
    """Return the types of an expression without global functions; `types` are its free variables'.

    Raises
    ------
    CodesignError
        All mistakes of the expression together.
    """
    inference = Inference(Module({}))
    for var, type_ in (types or {}).items():
        inference.types[var] = type_
    inference.infer(expr)
    return inference.finish()
