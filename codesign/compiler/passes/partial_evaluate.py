"""partial-evaluate: do at compile time what is known then.

    let %r = ref(%x);
    let %f = fn (%y: int32) { ref_write(%r, add(ref_read(%r), %y)) };
    %f(1); %f(2); ref_read(%r)
becomes
    let %a = add(%x, 1); let %b = add(%a, 2); %b

Functions, tuples, values of data types and cells that are known disappear with their calls, fields,
matches, reads and writes. What is left is in A-normal form; dead code is left for eliminate-dead-
code. Functions that call themselves are followed while an argument of which something is known
becomes smaller, at most `unroll` deep; `fuel` calls are followed in all.

Laws: the answer is the same bit for bit, so are the types. An error of what is not needed may go.

Source: Roesch et al., "Relay: A High-Level Compiler for Deep Learning" (2019), section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.annotate import with_parameter_types
from codesign.compiler.analysis.boundaries import with_boundaries
from codesign.compiler.analysis.call_order import recursive_functions
from codesign.compiler.analysis.evaluation import is_primitive
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.rewriting.a_normal import to_a_normal
from codesign.compiler.rewriting.partial.evaluator import Evaluator
from codesign.compiler.rewriting.partial.limits import Limits
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefNew,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import type_parameter_names
from codesign.ir.relay.types import FuncType, TensorType, Type
from codesign.ir.relay.visit import free_variables, post_order


@final
@dataclass(frozen=True, slots=True)
class PartialEvaluate:
    """Evaluate the functions of a module as far as they are known."""

    name: ClassVar[str] = "partial-evaluate"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.A_NORMAL, Form.BASIC_BLOCK})

    fuel: int = 10_000
    unroll: int = 128

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with what is known done; itself where that is nothing."""
        if not any(map(_is_worth_it, post_order(*map(_body, module.functions.values())))):
            return module
        normal = to_a_normal(with_parameter_types(with_boundaries(module)))
        types = infer_types(normal)
        recursive, plain = _recursive(normal), _plain(normal, types)
        limits = Limits(self.fuel, self.unroll, recursive, plain)
        evaluator = Evaluator(normal, types, type_parameter_names(normal), limits)
        made = normal.with_functions(
            {name: evaluator.function(each) for name, each in normal.functions.items()}
        )
        return module if is_equal_module(module, made) else made


def _body(function: Function) -> Expr:
    return function.body


def _is_worth_it(node: Expr) -> bool:
    match node:
        case Function():
            return not is_primitive(node)
        case Call(GlobalVar() | Constructor()):
            return True
        case _:
            return isinstance(node, If | Match | RefNew | Let)


def _recursive(module: Module) -> set[Function]:
    """Return the functions that may call themselves."""
    found = {module.functions[name] for name in recursive_functions(module)}
    for node in post_order(*module.functions.values()):
        match node:
            case Let(var, Function() as value) if var in free_variables(value):
                found.add(value)
            case _:
                pass
    return found


def _plain(module: Module, types: Mapping[Expr, Type]) -> set[Function]:
    """Return the global functions whose result is a tensor: nothing is known of a call's result."""
    found = set()
    for function in module.functions.values():
        type_ = types[function]
        if isinstance(type_, FuncType) and isinstance(type_.result, TensorType):
            found.add(function)
    return found
