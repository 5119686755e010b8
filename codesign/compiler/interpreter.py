"""The meaning of Relay programs: evaluates expressions with the operators' NumPy references.

Call by value, left to right; a node that is reached twice is evaluated once in each activation of
its function; of an `if` the branch that is not taken is never evaluated. Iterative: neither long
chains nor deep recursion of the program exhaust Python's stack. A value is dropped after its last
use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

import numpy as np

from codesign.compiler.analysis.infer_types import accepts
from codesign.diagnostics import CodesignError, Diagnostic, InternalError, Problem, Span
from codesign.dtypes import Array, DType
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
from codesign.ir.relay.types import TensorType, TupleType, Type, type_text
from codesign.ir.relay.visit import children, free_variables, use_counts
from codesign.ops.operator import Value
from codesign.ops.table import operator

Observer: TypeAlias = Callable[[Expr, Value], None]
"""`observe(node, value)` sees each evaluated parameter, constant, call, tuple, field and `if`."""


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function and the values of its free variables."""

    function: Function
    captured: Mapping[Var, _Result]


_Result: TypeAlias = Value | Closure


@dataclass(slots=True, eq=False)
class _Activation:
    """One run of a function's body: what is known, how often it is still needed, what is open."""

    root: Expr
    values: dict[Expr, _Result]
    uses: dict[Expr, int]
    stack: list[Expr]
    bound: set[Let] = field(default_factory=set)


class Interpreter:
    """Evaluates the functions of a module.

    Examples
    --------
    >>> x = Var("x", TensorType((), DType.INT32))
    >>> module = Module({"main": Function((x,), Call(OpRef("add"), (x, x)))})
    >>> int(Interpreter(module).run(x=np.int32(21)))
    42
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._needs = _Needs()

    def run(self, **inputs: Array) -> Value:
        """Return what `main` makes of its inputs, given by the names of its parameters.

        Raises
        ------
        CodesignError
            An input is missing, unknown, or of another shape or element type; or an operator
            refuses its values.
        """
        main = self._module.main
        names = [param.name for param in main.params]
        if set(names) != set(inputs):
            raise CodesignError.of(
                "the inputs are not main's parameters",
                found=f"found {sorted(inputs)}, expected {sorted(names)}",
            )
        return self.evaluate(main, [np.asarray(inputs[name]) for name in names])

    def evaluate(
        self,
        function: Function,
        args: list[Value] | tuple[Value, ...],
        *,
        observe: Observer | None = None,
    ) -> Value:
        """Return what a function without free variables makes of its arguments.

        Raises
        ------
        CodesignError
            An argument does not fit its parameter, or an operator refuses its values.
        """
        _check_arguments(function, args)
        machine = _Machine(self._module, self._needs, observe)
        result = machine.run(function.body, dict(zip(function.params, args, strict=True)))
        if isinstance(result, Closure):
            raise CodesignError.of("the result is a function, not a value")
        return result


def _check_arguments(function: Function, args: list[Value] | tuple[Value, ...]) -> None:
    if len(args) != len(function.params):
        raise CodesignError.of(
            "the function takes another number of arguments",
            found=f"found {len(args)}, expected {len(function.params)}",
        )
    for param, arg in zip(function.params, args, strict=True):
        found = value_type(arg)
        if param.annotation is not None and not accepts(param.annotation, found):
            raise CodesignError.of(
                f"input {param.name!r} does not fit",
                found=f"found {type_text(found)}, expected {type_text(param.annotation)}",
            )


def value_type(value: Value) -> Type:
    """Return the type of a value."""
    if isinstance(value, tuple):
        return TupleType(tuple(value_type(each) for each in value))
    return TensorType(value.shape, DType.of(value.dtype))


class _Needs:
    """What nodes need of an activation, kept between activations.

    A function literal needs the values of its free variables, not the nodes of its body.
    """

    def __init__(self) -> None:
        self._counts: dict[Expr, dict[Expr, int]] = {}
        self._free: dict[Function, tuple[Var, ...]] = {}

    def free_variables(self, function: Function) -> tuple[Var, ...]:
        if function not in self._free:
            self._free[function] = free_variables(function)
        return self._free[function]

    def use_counts(self, body: Expr) -> dict[Expr, int]:
        """Return how often each node is needed in one activation of the body."""
        if body not in self._counts:
            self._counts[body] = use_counts(body, below=self._below)
        return dict(self._counts[body])

    def _below(self, node: Expr) -> tuple[Expr, ...]:
        return self.free_variables(node) if isinstance(node, Function) else children(node)

    def consumed(self, node: Expr) -> tuple[Expr, ...]:
        """Return what an evaluated node needs no more; a `let` has released its value before."""
        match node:
            case Let(_, _, body):
                return (body,)
            case Call(OpRef(), args):
                return args
            case _:
                return self._below(node)


class _Machine:
    """An explicit stack of activations; each step works on the topmost."""

    def __init__(
        self,
        module: Module,
        needs: _Needs,
        observe: Observer | None,
    ) -> None:
        self._module = module
        self._needs = needs
        self._observe = observe
        self._activations: list[_Activation] = []

    def run(self, body: Expr, environment: dict[Var, _Result]) -> _Result:
        self._enter(body, environment)
        while True:
            activation = self._activations[-1]
            if activation.stack:
                self._step(activation)
                continue
            result = activation.values[activation.root]
            self._activations.pop()
            if not self._activations:
                return result
            caller = self._activations[-1]
            self._finish(caller, caller.stack[-1], result)

    def _enter(self, body: Expr, environment: Mapping[Var, _Result]) -> None:
        values: dict[Expr, _Result] = {}
        values.update(iter(environment.items()))
        activation = _Activation(body, values, self._needs.use_counts(body), [body])
        self._activations.append(activation)
        if self._observe is not None:
            for var, value in environment.items():
                self._report(var, value)

    def _report(self, node: Expr, value: _Result) -> None:
        if self._observe is not None and not isinstance(value, Closure):
            self._observe(node, value)

    def _step(self, activation: _Activation) -> None:
        node = activation.stack[-1]
        if node in activation.values:
            activation.stack.pop()
            return
        match node:
            case Constant(value):
                self._finish(activation, node, value)
            case Var(name, _, span):
                raise _problem(f"%{name} has no value here", span)
            case OpRef(name, span):
                raise _problem(f"operator {name} is used as a value", span)
            case GlobalVar(name, span):
                self._finish(activation, node, Closure(self._global(name, span), {}))
            case Function():
                self._finish(activation, node, self._closure(node, activation))
            case Let():
                self._let(activation, node)
            case If():
                self._branch(activation, node)
            case Tuple(fields):
                if self._ready(activation, fields):
                    self._finish(activation, node, _fields(fields, activation))
            case Project(value, index):
                if self._ready(activation, (value,)):
                    self._finish(activation, node, _field(activation.values[value], index))
            case Call():
                self._call(activation, node)
            case _:
                assert_never(node)

    def _ready(self, activation: _Activation, needed: tuple[Expr, ...]) -> bool:
        """Return whether all are evaluated; else open those that are not, the first on top."""
        missing = [each for each in needed if each not in activation.values]
        activation.stack.extend(reversed(missing))
        return not missing

    def _finish(self, activation: _Activation, node: Expr, result: _Result) -> None:
        """Keep the value of the topmost node and drop those that only it needed."""
        activation.stack.pop()
        activation.values[node] = result
        if not isinstance(node, Let | GlobalVar | Function):
            self._report(node, result)
        for child in self._needs.consumed(node):
            _release(activation, child)

    def _global(self, name: str, span: Span | None) -> Function:
        function = self._module.functions.get(name)
        if function is None:
            raise _problem(f"no function is named @{name}", span)
        return function

    def _closure(self, function: Function, activation: _Activation) -> Closure:
        """Return the function with the values of its variables; its own name means itself."""
        captured: dict[Var, _Result] = {}
        closure = Closure(function, captured)
        for var in self._needs.free_variables(function):
            known = activation.values.get(var)
            captured[var] = closure if known is None else known
        return closure

    def _let(self, activation: _Activation, let: Let) -> None:
        if let not in activation.bound:
            if self._ready(activation, (let.value,)):
                activation.bound.add(let)
                activation.values[let.var] = activation.values[let.value]
                _release(activation, let.value)
                _release(activation, let.var)
            return
        if self._ready(activation, (let.body,)):
            self._finish(activation, let, activation.values[let.body])

    def _branch(self, activation: _Activation, node: If) -> None:
        if not self._ready(activation, (node.condition,)):
            return
        taken = node.then if _truth(activation.values[node.condition]) else node.otherwise
        if self._ready(activation, (taken,)):
            self._finish(activation, node, activation.values[taken])

    def _call(self, activation: _Activation, call: Call) -> None:
        if isinstance(call.callee, OpRef):
            if self._ready(activation, call.args):
                args = tuple(_value(activation.values[each]) for each in call.args)
                self._finish(activation, call, apply(call, args))
            return
        if not self._ready(activation, (call.callee, *call.args)):
            return
        closure = activation.values[call.callee]
        if not isinstance(closure, Closure):
            raise _problem("what is called is no function", call.span)
        environment = dict(closure.captured)
        values = (activation.values[each] for each in call.args)
        environment.update(zip(closure.function.params, values, strict=True))
        self._enter(closure.function.body, environment)


def apply(call: Call, args: tuple[Value, ...]) -> Value:
    """Return what the called operator makes of values; its mistakes carry the call's span."""
    if not isinstance(call.callee, OpRef):
        raise InternalError("only calls of operators are applied to values")
    record = operator(call.callee.name, call.callee.span or call.span)
    try:
        result = record.reference(*args, *(() if record.attrs is None else (call.attrs,)))
    except CodesignError as error:
        placed = (_placed(each, call.span) for each in error.diagnostics)
        raise CodesignError(*placed) from error
    return result if isinstance(result, tuple) else np.asarray(result)


def _placed(diagnostic: Diagnostic, span: Span | None) -> Diagnostic:
    return diagnostic if diagnostic.span is not None else replace(diagnostic, span=span)


def _release(activation: _Activation, node: Expr) -> None:
    left = activation.uses[node] - 1
    activation.uses[node] = left
    if left == 0 and not isinstance(node, Constant):
        activation.values.pop(node, None)


def _fields(fields: tuple[Expr, ...], activation: _Activation) -> Value:
    return tuple(_value(activation.values[each]) for each in fields)


def _field(value: _Result, index: int) -> Value:
    if not isinstance(value, tuple):
        raise CodesignError.of("a field is taken of no tuple")
    return value[index]


def _value(result: _Result) -> Value:
    if isinstance(result, Closure):
        raise CodesignError.of("a function stands where a tensor is expected")
    return result


def _truth(condition: _Result) -> bool:
    if not isinstance(condition, np.ndarray):
        raise CodesignError.of("a condition is a scalar of bool")
    return bool(condition)


def _problem(what: str, span: Span | None) -> CodesignError:
    return CodesignError(Problem(what=what, span=span))
