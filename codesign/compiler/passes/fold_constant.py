"""fold-constant: evaluate calls of operators whose arguments are all constants.

    add(multiply(2f, 3f), %x)
becomes
    add(6f, %x)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from codesign.compiler.pass_manager import Form, PassContext
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef, Project, Tuple
from codesign.ir.relay.module import Module
from codesign.ir.relay.purity import is_pure
from codesign.ir.relay.visit import rewrite_module
from codesign.ops.table import OPERATORS


@final
@dataclass(frozen=True, slots=True)
class FoldConstant:
    """Replace calls of operators on constants by their value, and fields of known tuples.

    A value of more than `max_elements` elements stays a call.
    """

    name: ClassVar[str] = "fold-constant"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    max_elements: int = 1 << 26

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such calls replaced."""
        return rewrite_module(module, self._rule)

    def _rule(self, expr: Expr) -> Expr:
        match expr:
            case Project(Tuple(fields), index) if all(map(is_pure, fields)):
                return fields[index]
            case Call(OpRef(name), args, attrs, span) if (known := _known(args)) is not None:
                reference = OPERATORS[name].reference
                try:
                    value = reference(*known) if attrs is None else reference(*known, attrs=attrs)
                except CodesignError:
                    return expr  # the call may stand in a branch that is never taken
                if isinstance(value, tuple):
                    return Tuple(tuple(Constant(np.asarray(each), span) for each in value), span)
                return (
                    Constant(np.asarray(value), span) if value.size <= self.max_elements else expr
                )
            case _:
                return expr


def _known(args: tuple[Expr, ...]) -> list[Array | tuple[Array, ...]] | None:
    values: list[Array | tuple[Array, ...]] = []
    for arg in args:
        match arg:
            case Constant(value):
                values.append(value)
            case Tuple(fields):
                found = tuple(each.value for each in fields if isinstance(each, Constant))
                if len(found) < len(fields):
                    return None
                values.append(found)
            case _:
                return None
    return values
