"""to-cps: continuation-passing style: functions hand their result on instead of giving it back.

    def @double(%x: int32) { add(%x, %x) }
    def @main(%n: int32) { add(@double(%n), 1) }
becomes
    def @double(%x: int32, %k: fn (int32) -> int32, CPS=1) { let %v = add(%x, %x); %k(%v) }
    def @main_cps(%n: int32, %k: fn (int32) -> int32, CPS=1) {
      @double(%n, fn (%r: int32) { let %v = add(%r, 1); %k(%v) })
    }
    def @main(%n: int32) { @main_cps(%n, fn (%r: int32) { %r }) }

Every function but main takes a continuation, which gives what the whole program gives; so does
every function that is a value. Every call is in tail position then. Operators, constructors, cells
and branches without calls stay as they are. Only what main reaches is kept.

Laws: the answer is the same bit for bit, so is main's type; un-cps goes back.

Source: Plotkin, "Call-by-name, call-by-value and the lambda-calculus" (1975); Relay's ToCPS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.annotate import without_unreached
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.rewriting.a_normal import to_a_normal
from codesign.compiler.rewriting.cps import CPS, Conversion
from codesign.ir.relay.expr import Expr
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import FuncType, Type


@final
@dataclass(frozen=True, slots=True)
class ToCPS:
    """Give every function a continuation."""

    name: ClassVar[str] = "to-cps"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.A_NORMAL, Form.BASIC_BLOCK})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module in continuation-passing style; a library without main as it is."""
        if "main" not in module.functions or _is_cps(module):
            return module
        normal = to_a_normal(without_unreached(module))
        types = infer_types(normal)
        return Conversion(normal, types, _answer(normal.main, types)).result()


def _is_cps(module: Module) -> bool:
    return any(CPS in function.attributes for function in module.functions.values())


def _answer(main: Expr, types: Mapping[Expr, Type]) -> Type:
    type_ = types[main]
    assert isinstance(type_, FuncType), "a function has a function's type"
    return type_.result
