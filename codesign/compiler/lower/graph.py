"""A Relay function as straight-line steps: what the backends for one network at a time start from.

Lets, tuples, projections and calls of functions are gone; what is left are operators with one
result each, in an order that can be run. Calls whose arguments are all constants are evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never, final

from codesign.diagnostics import CodesignError, Problem, Span
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import (
    Attrs,
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
    construct_name,
)
from codesign.ir.relay.types import TensorType, TupleType, Type


@final
@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor between steps; identity is the node. `constant` is its array where it is known."""

    shape: tuple[int, ...]
    dtype: DType
    constant: Array | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """`result = operator(inputs, attrs)`; a tuple operand stands as its fields.

    `field` tells which result of an operator with several is meant.
    """

    operator: str
    attrs: Attrs | None
    inputs: tuple[Value, ...]
    result: Value
    span: Span | None = None
    field: int = 0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """What must hold of the inputs of a run: `value`, one int8, is 0 where it does."""

    value: Value
    mistake: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Steps in order, from inputs to outputs."""

    inputs: tuple[Value, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Value, ...]
    checks: tuple[Check, ...] = ()


Nested: TypeAlias = "Value | tuple[Nested, ...]"


def graph_of(function: Function, types: Mapping[Expr, Type]) -> Graph:
    """Return a closed first-order function as steps; `types` are of `infer_types`.

    Raises CodesignError where the function branches, calls itself or has an unknown dimension.
    """
    builder = _Builder(types)
    inputs = tuple(builder.declare(param) for param in function.params)
    result = builder.evaluate(function.body, dict(zip(function.params, inputs, strict=True)))
    return Graph(inputs, tuple(builder.steps), tuple(_leaves(result)))


def _leaves(nested: Nested) -> list[Value]:
    if isinstance(nested, Value):
        return [nested]
    return [leaf for field in nested for leaf in _leaves(field)]


def _refuse(expr: Expr, what: str, advice: str) -> CodesignError:
    return CodesignError(Problem(what=what, span=expr.span, help=advice))


@final
class _Builder:
    def __init__(self, types: Mapping[Expr, Type]) -> None:
        self.types = types
        self.steps: list[Step] = []
        self._constants: dict[Constant, Value] = {}

    def declare(self, expr: Expr) -> Value:
        match self.types.get(expr, expr.annotation if isinstance(expr, Var) else None):
            case TensorType() as kind:
                return self._tensor(expr, kind)
            case other:
                raise _refuse(
                    expr,
                    f"the CPU backend takes tensors as parameters, not {other}",
                    "pass the fields of a tuple one by one",
                )

    def _tensor(self, expr: Expr, kind: TensorType) -> Value:
        try:
            return Value(kind.static_shape, kind.dtype)
        except ValueError:
            raise _refuse(
                expr,
                f"the CPU backend needs known dimensions, not {list(kind.shape)}",
                "give the dimension when the network is loaded",
            ) from None

    def evaluate(self, root: Expr, known: dict[Expr, Nested]) -> Nested:
        stack = [root]
        while stack:
            expr = stack[-1]
            if expr in known:
                stack.pop()
                continue
            waiting = [each for each in _operands(expr) if each not in known]
            if waiting:
                stack += reversed(waiting)
                continue
            if isinstance(expr, Let):
                known[expr.var] = known[expr.value]
                if expr.body not in known:
                    stack.append(expr.body)
                    continue
            known[expr] = self._value(expr, known)
            stack.pop()
        return known[root]

    def _value(self, expr: Expr, known: dict[Expr, Nested]) -> Nested:
        match expr:
            case Constant():
                return self._constant(expr)
            case Let():
                return known[expr.body]
            case Tuple():
                return tuple(known[field] for field in expr.fields)
            case Project():
                fields = known[expr.value]
                assert not isinstance(fields, Value), "the types have seen to it"
                return fields[expr.index]
            case Call(Function() as callee):
                arguments = (known[arg] for arg in expr.args)
                return self.evaluate(callee.body, dict(zip(callee.params, arguments, strict=True)))
            case Call(OpRef(name)):
                return self._call(expr, name, [known[arg] for arg in expr.args])
            case If():
                raise _refuse(
                    expr, "the CPU backend does not compile if", "split the network at the branch"
                )
            case Call(Constructor() as callee):
                raise _refuse(
                    expr,
                    f"the CPU backend does not compile {construct_name(callee)}",
                    "evaluate this part with the interpreter",
                )
            case Call() | Function() | GlobalVar() | OpRef():
                raise _refuse(
                    expr,
                    "the CPU backend compiles calls of operators and of functions in place",
                    "inline the global functions first",
                )
            case Constructor() | Match() | RefNew() | RefRead() | RefWrite():
                raise _refuse(
                    expr,
                    f"the CPU backend does not compile {construct_name(expr)}",
                    "evaluate this part with the interpreter",
                )
            case Var():
                raise _refuse(expr, f"%{expr.name} is not bound", "compile a closed function")
            case _:
                assert_never(expr)

    def _constant(self, expr: Constant) -> Value:
        if expr not in self._constants:
            array = expr.value
            self._constants[expr] = Value(array.shape, DType.of(array.dtype), array)
        return self._constants[expr]

    def _call(self, expr: Call, name: str, arguments: list[Nested]) -> Nested:
        inputs = tuple(leaf for argument in arguments for leaf in _leaves(argument))
        match self.types[expr]:
            case TensorType() as kind:
                return self._step(expr, name, inputs, kind, 0)
            case TupleType(fields):
                results = []
                for place, field in enumerate(fields):
                    assert isinstance(field, TensorType), "operators give tensors"
                    results.append(self._step(expr, name, inputs, field, place))
                return tuple(results)
            case other:
                raise _refuse(expr, f"{name} gives {other}, not tensors", "call it")

    def _step(
        self, expr: Call, name: str, inputs: tuple[Value, ...], kind: TensorType, field: int
    ) -> Value:
        result = self._tensor(expr, kind)
        self.steps.append(Step(name, expr.attrs, inputs, result, expr.span, field))
        return result


def _operands(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Call(callee, args):
            return args if isinstance(callee, OpRef | Function) else (callee, *args)
        case Let():
            return (expr.value,)
        case Tuple():
            return expr.fields
        case Project():
            return (expr.value,)
        case _:
            return ()
