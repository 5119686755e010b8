"""What a program computes for given data: its control flow followed, its tensors left open.

A module runs on values of data types that are known, while tensors are symbols. Calls of operators
on symbols are written down, with the activation of the recursive function that made them and their
stage there: how many recursive calls of that activation had to return first. Calls of functions
that are not recursive belong to their caller. Taking a known row and splitting what another
activation made are views: they compute nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np

from codesign.compiler.analysis.call_order import recursive_functions
from codesign.compiler.interpreter import apply
from codesign.compiler.trampoline import run
from codesign.compiler.values import fit
from codesign.diagnostics import CodesignError, Problem, Span
from codesign.dtypes import Array, DType
from codesign.ir.executable.values import DataValue
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
    construct_name,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.split import SplitAttrs
from codesign.ops.table import operator


@final
@dataclass(slots=True, eq=False)
class Activation:
    """One run of a recursive function: calls that returned, and after which one symbols came."""

    calls: int = 0
    arrived: dict[Symbol, int] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """An operator's call on symbols; `args` holds tensors, and tuples of them.

    `is_split`: it gives a tuple.
    """

    call: Call
    args: tuple[Operand, ...]
    activation: Activation
    stage: int
    is_split: bool


@final
@dataclass(frozen=True, slots=True)
class Given:
    """A tensor that main takes in one of the runs."""

    run: int
    name: str


@final
@dataclass(frozen=True, slots=True)
class Field:
    """What an operator's call gives, or one field of it."""

    made: Made
    index: int


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One row of a symbol, along the first axis."""

    of: Symbol
    index: int
    span: Span | None


@final
@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a symbol along an axis."""

    of: Symbol
    axis: int
    begin: int
    end: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A tensor that is not known yet: its type, and where it comes from."""

    type: TensorType
    source: Given | Field | Row | Piece

    @property
    def root(self) -> Symbol:
        """The tensor that it is or is a view of."""
        symbol = self
        while isinstance(symbol.source, Row | Piece):
            symbol = symbol.source.of
        return symbol


Operand: TypeAlias = "Symbol | Constant | Array | tuple[Operand, ...]"


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Closure:
    function: Function
    captured: Mapping[Expr, Any]


@final
@dataclass(slots=True, eq=False)
class _Frame:
    """One run of a function's body: values of its nodes, and the activation that it belongs to."""

    values: dict[Expr, Any]
    activation: Activation


@final
class Tracer:
    """Follows one module's `main`, as often as it is told to; `calls` is what was written down."""

    def __init__(self, module: Module) -> None:
        self.calls: list[Made] = []
        self._module = module
        self._recursive = recursive_functions(module)
        self._runs = 0

    def follow(self, inputs: Mapping[str, Any]) -> Any:
        """Return what main makes of inputs: tensors that it takes become symbols.

        Raises
        ------
        CodesignError
            What the program does next depends on a tensor, or it has cells or another construct
            whose steps cannot be set side by side; or an input is missing.
        """
        main = self._module.main
        names = [param.name for param in main.params]
        if set(names) != set(inputs):
            raise CodesignError.of(
                "the inputs are not main's parameters",
                found=f"found {sorted(inputs)}, expected {sorted(names)}",
            )
        values: dict[Expr, Any] = {}
        for param in main.params:
            given = inputs[param.name]
            values[param] = given
            if isinstance(param.annotation, TensorType):
                values[param] = Symbol(param.annotation, Given(self._runs, param.name))
        self._runs += 1
        return run(self._value(main.body, _Frame(values, Activation())))

    def _value(self, expr: Expr, frame: _Frame) -> Generator[Any, Any, Any]:
        """Return the value of an expression; a body in tail position takes its owner's place."""
        while expr not in frame.values:
            match expr:
                case Let(var, value, body):
                    frame.values[var] = yield self._value(value, frame)
                    expr = body
                case If(condition, then, otherwise):
                    known = yield self._value(condition, frame)
                    expr = then if self._truth(known, expr.span) else otherwise
                case Match():
                    expr = yield self._clause(expr, frame)
                case _:
                    frame.values[expr] = yield self._node(expr, frame)
        return frame.values[expr]

    def _clause(self, node: Match, frame: _Frame) -> Generator[Any, Any, Expr]:
        value = yield self._value(node.value, frame)
        for clause in node.clauses:
            bound = fit(clause.pattern, value)
            if bound is not None:
                frame.values.update(iter(bound.items()))
                return clause.body
        raise _refusal("no clause of a match fits", node.span)

    def _node(self, expr: Expr, frame: _Frame) -> Generator[Any, Any, Any]:
        match expr:
            case Constant():
                return expr
            case Tuple(fields):
                return (yield self._values(fields, frame))
            case Project(value, index):
                return (yield self._value(value, frame))[index]
            case GlobalVar(name):
                return _Closure(self._module.functions[name], {})
            case Function():
                return _Closure(expr, frame.values)
            case Call():
                return (yield self._call(expr, frame))
            case RefNew() | RefRead() | RefWrite():
                raise _refusal(f"{construct_name(expr)} has no form beside others", expr.span)
            case Var() | OpRef() | Constructor() | _:
                raise _refusal(f"{construct_name(expr)} is no value here", expr.span)

    def _values(self, exprs: tuple[Expr, ...], frame: _Frame) -> Generator[Any, Any, Any]:
        values = []
        for each in exprs:
            value = yield self._value(each, frame)
            values.append(value)
        return tuple(values)

    def _call(self, call: Call, frame: _Frame) -> Generator[Any, Any, Any]:
        args = yield self._values(call.args, frame)
        match call.callee:
            case OpRef():
                return self._operator(call, args, frame.activation)
            case Constructor(name):
                return DataValue(name, args)
            case GlobalVar(name):
                closure = _Closure(self._module.functions[name], {})
                opens = name in self._recursive
            case callee:
                closure = yield self._value(callee, frame)
                opens = True
        values: dict[Expr, Any] = dict(closure.captured)
        values.update(zip(closure.function.params, args, strict=True))
        caller = frame.activation
        inner = _Frame(values, Activation() if opens else caller)
        result = yield self._value(closure.function.body, inner)
        if opens:
            caller.calls += 1
            for symbol in _symbols(result):
                caller.arrived.setdefault(symbol, caller.calls)
        return result

    def _operator(self, call: Call, args: tuple[Any, ...], activation: Activation) -> Any:
        roots = [symbol.root for symbol in _symbols(args)]
        if not roots:
            return apply(call, tuple(map(_known, args)))
        view = self._view(call, args, activation)
        if view is not None:
            return view
        stage = max(_stage(root, activation) for root in roots)
        assert isinstance(call.callee, OpRef), "an operator's call has an operator"
        result = operator(call.callee.name).relation(call, tuple(map(_type, args)))
        made = Made(call, args, activation, stage, isinstance(result, TupleType))
        self.calls.append(made)
        if isinstance(result, TupleType):
            return tuple(_result(made, index, each) for index, each in enumerate(result.fields))
        return _result(made, 0, result)

    def _view(self, call: Call, args: tuple[Any, ...], activation: Activation) -> Any | None:
        data = args[0]
        if not isinstance(data, Symbol) or _is_own(data.root, activation):
            return None
        match call:
            case Call(callee=OpRef(name="take"), attrs=AxisAttrs(axis=0), span=span):
                index = args[1]
                if isinstance(index, Symbol) or _known(index).ndim:
                    return None
                type_ = TensorType(data.type.shape[1:], data.type.dtype)
                return Symbol(type_, Row(data, int(_known(index)), span))
            case Call(callee=OpRef(name="split"), attrs=SplitAttrs(axis=axis)):
                return _pieces(call, data, axis % len(data.type.shape))
            case _:
                return None

    def _truth(self, known: Any, span: Span | None) -> bool:
        if isinstance(known, Symbol):
            raise _refusal("what the program does next depends on a tensor that it computes", span)
        return bool(_known(known))


def _pieces(call: Call, data: Symbol, axis: int) -> tuple[Symbol, ...]:
    result = operator("split").relation(call, (data.type,))
    assert isinstance(result, TupleType), "split gives a tuple"
    pieces, begin = [], 0
    for each in result.fields:
        assert isinstance(each, TensorType), "split gives tensors"
        end = begin + each.static_shape[axis]
        pieces.append(Symbol(each, Piece(data, axis, begin, end)))
        begin = end
    return tuple(pieces)


def _is_own(root: Symbol, activation: Activation) -> bool:
    return isinstance(root.source, Field) and root.source.made.activation is activation


def _stage(root: Symbol, activation: Activation) -> int:
    if isinstance(root.source, Field) and root.source.made.activation is activation:
        return root.source.made.stage
    return activation.arrived.get(root, 0)


def _result(made: Made, index: int, type_: Type) -> Symbol:
    assert isinstance(type_, TensorType), "operators give tensors"
    return Symbol(type_, Field(made, index))


def _symbols(value: Any) -> list[Symbol]:
    """Return the symbols in a value; those in values of data types too."""
    found: list[Symbol] = []
    waiting = [value]
    while waiting:
        match waiting.pop():
            case Symbol() as symbol:
                found.append(symbol if isinstance(symbol.source, Given | Field) else symbol.root)
            case tuple() as fields:
                waiting.extend(fields)
            case DataValue(_, fields):
                waiting.extend(fields)
            case _:
                pass
    return found


def _known(value: Any) -> Any:
    match value:
        case Constant(value=array):
            return array
        case tuple():
            return tuple(map(_known, value))
        case _:
            return np.asarray(value)


def _type(value: Any) -> Type:
    match value:
        case Symbol(type=type_):
            return type_
        case tuple():
            return TupleType(tuple(map(_type, value)))
        case _:
            array = _known(value)
            return TensorType(array.shape, DType.of(array.dtype))


def _refusal(what: str, span: Span | None) -> CodesignError:
    return CodesignError(
        Problem(
            what=what,
            help="batching follows programs whose control flow depends on data types alone",
            span=span,
        )
    )
