"""The meaning of Relay programs: evaluates expressions with the operators' NumPy references.

Call by value, left to right; a node that is reached twice is evaluated once in each activation of
its function; of an `if` the branch that is not taken is never evaluated, of a `match` the first
clause that fits is. Cells are read and written in this order. Iterative: neither long chains nor
deep recursion of the program exhaust Python's stack, and a call in tail position takes the place of
its caller. A value is dropped after its last use. Where types have `?`, annotations are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

import numpy as np

from codesign.compiler.needs import Needs
from codesign.compiler.values import (
    Cell,
    Closure,
    ConstructorFunction,
    DataValue,
    Result,
    check_fits,
    check_lengths,
    field_of,
    first_order,
    fit,
    is_first_order,
    kind_of,
    truth_of,
    value_type,
)
from codesign.diagnostics import CodesignError, Diagnostic, InternalError, Problem, Span
from codesign.dtypes import Array
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    Project,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import children
from codesign.ops.operator import Value
from codesign.ops.table import operator

Observer: TypeAlias = Callable[[Expr, Value], None]
"""`observe(node, value)` sees each evaluated parameter, constant, call, tuple, field and `if`."""


@dataclass(slots=True, eq=False)
class _Activation:
    """One run of a function's body: what is known, how often it is still needed, what is open."""

    root: Expr
    values: dict[Expr, Result]
    uses: dict[Expr, int]
    stack: list[Expr]
    chosen: dict[Expr, Expr] = field(default_factory=dict)
    """Of `let`, `if` and `match` that are decided, the node whose value is theirs."""


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
        self._needs = Needs()

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
        return first_order(self.result_of(function, args, observe=observe))

    def result_of(
        self, function: Function, args: Sequence[Result], *, observe: Observer | None = None
    ) -> Result:
        """Return what a function without free variables makes of arguments of any kind.

        Raises
        ------
        CodesignError
            A tensor does not fit its parameter, an operator refuses its values, or no clause of a
            match fits.
        """
        if len(args) != len(function.params):
            raise CodesignError.of(
                "the function takes another number of arguments",
                found=f"found {len(args)}, expected {len(function.params)}",
            )
        for param, arg in zip(function.params, args, strict=True):
            check_fits(f"input {param.name!r}", param.annotation, arg)
        check_lengths(function.params, args)
        machine = _Machine(self._module, self._needs, observe)
        return machine.run(function.body, dict(zip(function.params, args, strict=True)))


class _Machine:
    """An explicit stack of activations; each step works on the topmost."""

    def __init__(
        self,
        module: Module,
        needs: Needs,
        observe: Observer | None,
    ) -> None:
        self._module = module
        self._needs = needs
        self._observe = observe
        self._activations: list[_Activation] = []

    def run(self, body: Expr, environment: dict[Var, Result]) -> Result:
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

    def _call_closure(self, closure: Closure, args: list[Result]) -> None:
        """Enter a function; a caller that has nothing left to do is left first."""
        if self._observe is None and _is_in_tail_position(self._activations[-1]):
            self._activations.pop()
        environment = dict(closure.captured)
        for param, arg in zip(closure.function.params, args, strict=True):
            environment[param] = _annotated(param, arg)
        if self._needs.has_lengths(closure.function):
            check_lengths(closure.function.params, args)
        self._enter(closure.function.body, environment)

    def _enter(self, body: Expr, environment: Mapping[Var, Result]) -> None:
        values: dict[Expr, Result] = {}
        values.update(iter(environment.items()))
        activation = _Activation(body, values, self._needs.use_counts(body), [body])
        self._activations.append(activation)
        if self._observe is not None:
            for var, value in environment.items():
                self._report(var, value)

    def _report(self, node: Expr, value: Result) -> None:
        if self._observe is not None and is_first_order(value):
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
            case Constructor(name):
                self._finish(activation, node, ConstructorFunction(name))
            case Let():
                self._let(activation, node)
            case If():
                self._branch(activation, node)
            case Match():
                self._match(activation, node)
            case Tuple(fields):
                if self._ready(activation, fields):
                    values = tuple(activation.values[each] for each in fields)
                    self._finish(activation, node, values)
            case Project(value, index):
                if self._ready(activation, (value,)):
                    self._finish(activation, node, field_of(activation.values[value], index))
            case Call():
                self._call(activation, node)
            case RefNew() | RefRead() | RefWrite():
                if self._ready(activation, children(node)):
                    self._finish(activation, node, _on_cell(node, activation.values))
            case _:
                assert_never(node)

    def _ready(self, activation: _Activation, needed: tuple[Expr, ...]) -> bool:
        """Return whether all are evaluated; else open those that are not, the first on top."""
        missing = [each for each in needed if each not in activation.values]
        activation.stack.extend(reversed(missing))
        return not missing

    def _finish(self, activation: _Activation, node: Expr, result: Result) -> None:
        """Keep the value of the topmost node and drop those that only it needed."""
        activation.stack.pop()
        activation.values[node] = result
        if not isinstance(node, Let | GlobalVar | Function | Match):
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
        captured: dict[Var, Result] = {}
        closure = Closure(function, captured)
        for var in self._needs.free_variables(function):
            known = activation.values.get(var)
            captured[var] = closure if known is None else known
        return closure

    def _let(self, activation: _Activation, let: Let) -> None:
        if let not in activation.chosen:
            if self._ready(activation, (let.value,)):
                activation.chosen[let] = let.body
                activation.values[let.var] = _annotated(let.var, activation.values[let.value])
                _release(activation, let.value)
                _release(activation, let.var)
            return
        self._take(activation, let)

    def _branch(self, activation: _Activation, node: If) -> None:
        if node not in activation.chosen:
            if not self._ready(activation, (node.condition,)):
                return
            truth = truth_of(activation.values[node.condition])
            activation.chosen[node] = node.then if truth else node.otherwise
        self._take(activation, node)

    def _match(self, activation: _Activation, node: Match) -> None:
        if node not in activation.chosen:
            if not self._ready(activation, (node.value,)):
                return
            body, bound = _first_that_fits(node, activation.values[node.value])
            activation.chosen[node] = body
            activation.values.update((var, _annotated(var, each)) for var, each in bound.items())
            for var in bound:
                _release(activation, var)
        self._take(activation, node)

    def _take(self, activation: _Activation, node: Expr) -> None:
        """Give a node the value of what was chosen for it."""
        chosen = activation.chosen[node]
        if self._ready(activation, (chosen,)):
            self._finish(activation, node, activation.values[chosen])

    def _call(self, activation: _Activation, call: Call) -> None:
        if isinstance(call.callee, OpRef):
            if self._ready(activation, call.args):
                args = tuple(_operand(activation.values[each], call.span) for each in call.args)
                self._finish(activation, call, apply(call, args))
            return
        if not self._ready(activation, (call.callee, *call.args)):
            return
        values = [activation.values[each] for each in call.args]
        match activation.values[call.callee]:
            case ConstructorFunction(name):
                self._finish(activation, call, DataValue(name, tuple(values)))
            case Closure() as closure:
                self._call_closure(closure, values)
            case other:
                raise _problem("what is called is no function", call.span, kind_of(other))


def _annotated(var: Var, value: Result) -> Result:
    """Return the value of a variable; refuse one that an annotation with `?` let through."""
    if var.annotation is not None:
        try:
            check_fits(f"%{var.name}", var.annotation, value)
        except CodesignError as error:
            raise CodesignError(*(_placed(each, var.span) for each in error.diagnostics)) from error
    return value


def _is_in_tail_position(activation: _Activation) -> bool:
    """Return whether the value of the topmost node is that of the whole activation."""
    node = activation.stack[-1]
    for outer in reversed(activation.stack[:-1]):
        if activation.chosen.get(outer) is not node:
            return False
        node = outer
    return node is activation.root


def _first_that_fits(node: Match, value: Result) -> tuple[Expr, dict[Var, Result]]:
    for clause in node.clauses:
        bound = fit(clause.pattern, value)
        if bound is not None:
            return clause.body, bound
    raise _problem("no clause of a match fits", node.span, f"found {kind_of(value)}")


def _on_cell(node: RefNew | RefRead | RefWrite, values: Mapping[Expr, Result]) -> Result:
    if isinstance(node, RefNew):
        return Cell(values[node.value])
    cell = values[node.reference]
    if not isinstance(cell, Cell):
        raise _problem("a cell is expected here", node.span, f"found {kind_of(cell)}")
    if isinstance(node, RefRead):
        return cell.content
    cell.content = values[node.value]
    return ()


def _operand(result: Result, span: Span | None) -> Value:
    try:
        return first_order(result)
    except CodesignError as error:
        raise CodesignError(*(_placed(each, span) for each in error.diagnostics)) from error


def apply(call: Call, args: tuple[Value, ...]) -> Value:
    """Return what the called operator makes of values; its mistakes carry the call's span."""
    if not isinstance(call.callee, OpRef):
        raise InternalError("only calls of operators are applied to values")
    record = operator(call.callee.name, call.callee.span or call.span)
    record.relation(call, tuple(map(value_type, args)))  # what `?` has let through is refused here
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


def _problem(what: str, span: Span | None, found: str = "") -> CodesignError:
    return CodesignError(Problem(what=what, found=found, span=span))
