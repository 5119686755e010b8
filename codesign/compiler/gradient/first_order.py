"""Reverse mode on graphs: plain code that computes a value and then, backwards, its gradient.

    fn (%x, %w) { sum(multiply(%x, %w)) }
becomes
    fn (%x, %w) {
      %0 = multiply(%x, %w); %1 = sum(%0); %2 = broadcast_to(ones_like(%1), shape=…);
      (%1, (multiply(%2, %w), multiply(%2, %x)))
    }

Only what lies between the parameters and the result is differentiated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.gradient.graph_form import graph_form, refusal
from codesign.compiler.gradient.rule import backward, has_float
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    OpRef,
    Project,
    Tuple,
    Var,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import FuncType, TensorType, TupleType, Type
from codesign.ir.relay.visit import children, post_order
from codesign.ops.operator import Forward
from codesign.ops.table import call

Adjoint: TypeAlias = "Expr | tuple[Adjoint, ...] | None"
"""What flows back into a value: into a tensor an expression, into a tuple one for each field."""


def first_order(
    function: Function, module: Module, types: Mapping[Expr, Type], chosen: tuple[int, ...]
) -> Function:
    """Return `fn (params) -> (value, (gradient of each chosen parameter))` without free variables.

    The value is differentiated as the sum of all its floating-point elements.

    Raises
    ------
    CodesignError
        The function is no graph, or an operator on the way has no gradient.
    """
    signature = types[function]
    assert isinstance(signature, FuncType), "a function has the type of a function"
    params = tuple(
        replace(param, annotation=type_)
        for param, type_ in zip(function.params, signature.params, strict=True)
    )
    body = graph_form(function, module, params)
    for node in post_order(body):
        if not isinstance(node, Var | Constant | Call | Tuple | Project | OpRef):
            raise refusal(node)
    reverse = _Reverse(params, body, tuple(params[each] for each in chosen))
    return Function(params, Tuple((body, Tuple(reverse.gradients()))), attributes={"Inline": 1})


@final
class _Reverse:
    def __init__(self, params: tuple[Var, ...], body: Expr, chosen: tuple[Var, ...]) -> None:
        self._types: Mapping[Expr, Type] = infer_types(Module({"main": Function(params, body)}))
        self._body = body
        self._chosen = chosen
        self._adjoints: dict[Expr, Adjoint] = {}
        self._nodes = [node for node in post_order(body) if not isinstance(node, OpRef)]
        self._active = self._find_active()

    def gradients(self) -> tuple[Expr, ...]:
        """Return the gradient of each chosen parameter."""
        if self._body in self._active:
            self._add(self._body, self._seed(self._body, self._types[self._body]))
        for node in reversed(self._nodes):
            if self._adjoints.get(node) is not None:
                self._propagate(node)
        return tuple(
            self._whole(self._adjoints.get(param), self._param_type(param), param)
            for param in self._chosen
        )

    def _param_type(self, param: Var) -> Type:
        assert param.annotation is not None, "first_order has annotated it"
        return param.annotation

    def _find_active(self) -> set[Expr]:
        """Return the nodes that a chosen parameter has a smooth influence on."""
        active: set[Expr] = {each for each in self._chosen if has_float(self._param_type(each))}
        for node in self._nodes:
            if has_float(self._types[node]) and any(each in active for each in children(node)):
                active.add(node)
        return active

    def _propagate(self, node: Expr) -> None:
        adjoint = self._adjoints[node]
        match node:
            case Call():
                self._through(node, self._whole(adjoint, self._types[node], node))
            case Tuple(fields):
                assert isinstance(adjoint, tuple), "the adjoint of a tuple is one"
                for field, each in zip(fields, adjoint, strict=True):
                    self._add(field, each)
            case Project(value, index):
                type_ = self._types[value]
                assert isinstance(type_, TupleType), "only tuples have fields"
                nothing: list[Adjoint] = [None] * len(type_.fields)
                nothing[index] = adjoint
                self._add(value, tuple(nothing))
            case _:
                pass

    def _through(self, node: Call, adjoint: Expr) -> None:
        forward = Forward(
            attrs=node.attrs,
            args=node.args,
            types=tuple(self._types[each] for each in node.args),
            result=node,
            result_type=self._types[node],
        )
        for arg, each in zip(node.args, backward(node, forward, adjoint), strict=True):
            self._add(arg, self._split(each, self._types[arg]))

    def _add(self, node: Expr, more: Adjoint) -> None:
        if node in self._active and more is not None:
            self._adjoints[node] = _sum(self._adjoints.get(node), more)

    def _split(self, adjoint: Expr | None, type_: Type) -> Adjoint:
        """Return an adjoint that is one expression as one for each tensor."""
        if adjoint is None or not isinstance(type_, TupleType):
            return adjoint
        fields = enumerate(type_.fields)
        if isinstance(adjoint, Tuple):
            return tuple(self._split(adjoint.fields[i], each) for i, each in fields)
        return tuple(self._split(Project(adjoint, i), each) for i, each in fields)

    def _seed(self, value: Expr, type_: Type) -> Adjoint:
        match type_:
            case TensorType(_, dtype) if dtype.is_float:
                return call("ones_like", value)
            case TupleType(fields):
                return tuple(self._seed(_field(value, i), each) for i, each in enumerate(fields))
            case _:
                return None

    def _whole(self, adjoint: Adjoint, type_: Type, value: Expr) -> Expr:
        """Return an adjoint as one expression, with zeros where nothing flows."""
        if isinstance(type_, TupleType):
            parts = adjoint if isinstance(adjoint, tuple) else (None,) * len(type_.fields)
            pairs = enumerate(zip(parts, type_.fields, strict=True))
            return Tuple(tuple(self._whole(a, t, _field(value, i)) for i, (a, t) in pairs))
        if adjoint is None:
            return call("zeros_like", value)
        assert not isinstance(adjoint, tuple), "the adjoint of a tensor is a tensor"
        return adjoint


def _field(value: Expr, index: int) -> Expr:
    return value.fields[index] if isinstance(value, Tuple) else Project(value, index)


def _sum(left: Adjoint, right: Adjoint) -> Adjoint:
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(map(_sum, left, right))
    assert not isinstance(left, tuple), "both adjoints have one structure"
    assert not isinstance(right, tuple), "both adjoints have one structure"
    return call("add", left, right)
