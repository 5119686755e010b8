"""infer-types: the type of every expression of a module, in one pass.

A callee is typed before its caller, whatever the order of insertion; functions that call each other
in a circle need annotated results. All mistakes of a module are collected into one error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from codesign.diagnostics import CodesignError, Diagnostic, Problem, Span
from codesign.dtypes import DType
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    OpRef,
    Project,
    Tuple,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import (
    UNKNOWN,
    FuncType,
    TensorType,
    TupleType,
    Type,
    type_text,
)
from codesign.ir.relay.visit import children, post_order
from codesign.ops.table import operator

_CONDITION: Final = TensorType((), DType.BOOL)


def infer_types(module: Module) -> Mapping[Expr, Type]:
    """Return the type of every expression of every function; operators themselves have none.

    Raises
    ------
    CodesignError
        All mistakes of the module together.
    """
    inference = _Inference(module)
    for function in _callees_first(module):
        inference.infer(function)
    if inference.mistakes:
        raise CodesignError(*inference.mistakes)
    return inference.types


def infer_expression(expr: Expr, types: Mapping[Var, Type] | None = None) -> Mapping[Expr, Type]:
    """Return the types of an expression without global functions; `types` are its free variables'.

    Raises
    ------
    CodesignError
        All mistakes of the expression together.
    """
    inference = _Inference(Module({}))
    inference.assume(types or {})
    inference.infer(expr)
    if inference.mistakes:
        raise CodesignError(*inference.mistakes)
    return inference.types


def accepts(expected: Type, found: Type) -> bool:
    """Return whether a value of type `found` may stand where `expected` is; `?` fits any length."""
    match expected, found:
        case TensorType(wanted, dtype), TensorType(shape, other):
            fits = len(wanted) == len(shape) and all(
                want is UNKNOWN or dim is UNKNOWN or want == dim
                for want, dim in zip(wanted, shape, strict=True)
            )
            return fits and dtype is other
        case TupleType(wanted), TupleType(fields):
            return _all_accept(wanted, fields)
        case FuncType(wanted, result), FuncType(params, other):
            return _all_accept(wanted, params) and accepts(result, other)
        case _:
            return False


def _all_accept(expected: tuple[Type, ...], found: tuple[Type, ...]) -> bool:
    return len(expected) == len(found) and all(map(accepts, expected, found))


def _callees_first(module: Module) -> list[Function]:
    """Return the functions so that callees come before callers where there is no circle."""
    done: dict[str, None] = {}
    opened: set[str] = set()
    stack: list[tuple[str, Iterator[str]]] = []
    for root in module.functions:
        stack.append((root, _callees(module, root)))
        opened.add(root)
        while stack:
            name, pending = stack[-1]
            callee = next((each for each in pending if each not in opened), None)
            if callee is None:
                stack.pop()
                done.setdefault(name)
            else:
                opened.add(callee)
                stack.append((callee, _callees(module, callee)))
    return [module.functions[name] for name in done]


def _callees(module: Module, name: str) -> Iterator[str]:
    return iter(
        [
            node.name
            for node in post_order(module.functions[name])
            if isinstance(node, GlobalVar) and node.name in module.functions
        ]
    )


def _declared(function: Function) -> FuncType | None:
    """Return the function's type where its parameters and its result are annotated."""
    params = tuple(param.annotation for param in function.params if param.annotation is not None)
    if len(params) != len(function.params) or function.result_type is None:
        return None
    return FuncType(params, function.result_type)


class _Inference:
    """The types found so far and the mistakes; a node that depends on a mistake has no type."""

    def __init__(self, module: Module) -> None:
        self.types: dict[Expr, Type] = {}
        self.mistakes: list[Diagnostic] = []
        self._module = module
        self._values: dict[Var, Expr] = {}
        self._visited: set[Expr] = set()
        self._circular: set[Function] = set()

    def assume(self, types: Mapping[Var, Type]) -> None:
        for var, type_ in types.items():
            self.types[var] = type_

    def infer(self, root: Expr) -> None:
        nodes = list(post_order(root))
        self._values.update((node.var, node.value) for node in nodes if isinstance(node, Let))
        params = {param for node in nodes if isinstance(node, Function) for param in node.params}
        for node in nodes:
            if node not in self._visited and node not in self.types:
                self._visit(node, params)
            self._visited.add(node)

    def _visit(self, node: Expr, params: set[Var]) -> None:
        try:
            found = self._type_of(node, params)
        except CodesignError as error:
            self.mistakes.extend(error.diagnostics)
            return
        if found is not None:
            self.types[node] = found

    def _type_of(self, node: Expr, params: set[Var]) -> Type | None:
        match node:
            case Var():
                return self._variable(node, params)
            case GlobalVar(name, span):
                return self._global(name, span)
            case Constant(value):
                return TensorType(value.shape, DType.of(value.dtype))
            case OpRef():
                return None
            case Call():
                _refuse_operators(node.args)
                return self._call(node)
            case Function():
                _refuse_operators((node.body,))
                return self._function(node)
            case Let() | If() | Tuple() | Project():
                _refuse_operators(children(node))
                known = [self.types.get(each) for each in children(node)]
                found = tuple(each for each in known if each is not None)
                return self._structure(node, found) if len(found) == len(known) else None
            case _:
                assert_never(node)

    def _variable(self, var: Var, params: set[Var]) -> Type | None:
        value = self._values.get(var)
        if value is not None:
            return self._bound(var, value)
        if var.annotation is not None:
            return var.annotation
        if var in params:
            raise _problem(
                f"parameter %{var.name} has no type",
                var.span,
                help=f"write %{var.name}: Tensor[(…), float32]",
            )
        raise _problem(f"%{var.name} is not defined here", var.span)

    def _bound(self, var: Var, value: Expr) -> Type | None:
        found = self.types.get(value)
        if found is None and isinstance(value, Function):
            found = _declared(value)
        if found is None and value not in self._visited:
            raise _problem(
                f"%{var.name} is used before it has a type",
                var.span,
                help="a function that calls itself needs annotated parameters and result",
            )
        if var.annotation is None or found is None:
            return var.annotation or found
        if not accepts(var.annotation, found):
            raise _problem(
                f"%{var.name} is bound to a value of another type",
                var.span,
                f"found {type_text(found)}, annotated {type_text(var.annotation)}",
            )
        return var.annotation

    def _global(self, name: str, span: Span | None) -> Type | None:
        function = self._module.functions.get(name)
        if function is None:
            raise _problem(f"no function is named @{name}", span)
        known = self.types.get(function) or _declared(function)
        if known is None and not (function in self._visited or function in self._circular):
            self._circular.add(function)
            raise _problem(
                f"@{name} calls itself and has no result type",
                function.span or span,
                help="annotate its parameters and its result: fn (…) -> Tensor[(…), float32]",
            )
        return known

    def _call(self, call: Call) -> Type | None:
        found = [self.types.get(each) for each in call.args]
        args = tuple(each for each in found if each is not None)
        if isinstance(call.callee, OpRef):
            record = operator(call.callee.name, call.callee.span or call.span)
            return record.relation(call, args) if len(args) == len(found) else None
        callee = self.types.get(call.callee)
        if callee is None or len(args) != len(found):
            return None
        if not isinstance(callee, FuncType):
            raise _problem("what is called is no function", call.span, f"found {type_text(callee)}")
        if not _all_accept(callee.params, args):
            wanted = ", ".join(map(type_text, callee.params))
            given = ", ".join(map(type_text, args))
            raise _problem(
                "the arguments do not fit the parameters",
                call.span,
                f"found ({given}), expected ({wanted})",
            )
        return callee.result

    def _function(self, function: Function) -> Type | None:
        found = [self.types.get(each) for each in (*function.params, function.body)]
        known = tuple(each for each in found if each is not None)
        if len(known) != len(found):
            return _declared(function)
        *params, body = known
        result = function.result_type
        if result is not None and not accepts(result, body):
            raise _problem(
                "the body has another type than the function's result",
                function.body.span or function.span,
                f"found {type_text(body)}, annotated {type_text(result)}",
            )
        return FuncType(tuple(params), body if result is None else result)

    def _structure(self, node: Let | If | Tuple | Project, found: tuple[Type, ...]) -> Type:
        match node:
            case Let():
                return found[2]
            case Tuple():
                return TupleType(found)
            case Project():
                return _projected(node, found[0])
            case If():
                return _branches(node, *found)
            case _:
                assert_never(node)


def _refuse_operators(values: tuple[Expr, ...]) -> None:
    for value in values:
        if isinstance(value, OpRef):
            raise _problem(
                f"operator {value.name} is used as a value",
                value.span,
                help=f"wrap it: fn (%x: …) {{ {value.name}(%x) }}",
            )


def _projected(node: Project, value: Type) -> Type:
    if not isinstance(value, TupleType):
        raise _problem("a field is taken of no tuple", node.span, f"found {type_text(value)}")
    if not 0 <= node.index < len(value.fields):
        raise _problem(
            f"the tuple has no field {node.index}", node.span, f"it has {len(value.fields)} fields"
        )
    return value.fields[node.index]


def _branches(node: If, condition: Type, then: Type, otherwise: Type) -> Type:
    if condition != _CONDITION:
        raise _problem(
            "a condition is a scalar of bool",
            node.condition.span or node.span,
            f"found {type_text(condition)}",
        )
    if not accepts(then, otherwise):
        raise _problem(
            "the branches have different types",
            node.span,
            f"found {type_text(then)} and {type_text(otherwise)}",
        )
    return then


def _problem(
    what: str,
    span: Span | None,
    found: str = "",
    help: str | None = None,  # noqa: A002
) -> CodesignError:
    return CodesignError(Problem(what=what, found=found, span=span, help=help))
