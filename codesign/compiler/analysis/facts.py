"""Types and effects of expressions, old ones and those that a rewriting makes on the way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import final

from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    OpRef,
    Project,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
)
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type
from codesign.ir.relay.visit import children, post_order
from codesign.ops.gradual import result_type
from codesign.ops.table import OPERATORS


class Effect(IntEnum):
    """What evaluating an expression has to do with cells."""

    NONE = 0
    READS = 1
    WRITES = 2


@final
class Facts:
    """What is known of expressions; `types` are those of `infer_types` before the rewriting.

    New expressions are calls of operators, constants, tuples and fields over old ones.
    """

    def __init__(self, types: Mapping[Expr, Type]) -> None:
        self._given = types
        self._types: dict[Expr, Type | None] = {}
        self._effects: dict[Expr, Effect] = {}

    def replaced(self, old: Expr, new: Expr) -> None:
        """Note that a new expression stands for an old one: it has its type."""
        if new is not old and old in self._given:
            self._types[new] = self._given[old]

    def type_of(self, expr: Expr) -> Type | None:
        """Return the type of an expression, None where it has none or none is known."""
        if expr in self._types:
            return self._types[expr]
        if expr in self._given:
            return self._given[expr]
        found = self._types[expr] = self._fresh_type(expr)
        return found

    def tensor(self, expr: Expr) -> TensorType | None:
        """Return the type of an expression where it is a tensor's."""
        found = self.type_of(expr)
        return found if isinstance(found, TensorType) else None

    def dtype(self, expr: Expr) -> DType | None:
        """Return the element type of a tensor."""
        found = self.tensor(expr)
        return None if found is None else found.dtype

    def shape(self, expr: Expr) -> tuple[int, ...] | None:
        """Return the shape of a tensor of known lengths."""
        found = self.tensor(expr)
        if found is None or UNKNOWN in found.shape:
            return None
        return found.static_shape

    def is_float(self, expr: Expr) -> bool:
        """Return whether an expression is a tensor of floating-point numbers."""
        found = self.dtype(expr)
        return found is not None and found.is_float

    def is_integer(self, expr: Expr) -> bool:
        """Return whether an expression is a tensor of integers."""
        found = self.dtype(expr)
        return found is not None and found.is_integer

    def is_pure(self, expr: Expr) -> bool:
        """Return whether an expression may be dropped: its evaluation writes no cell."""
        return self._effect(expr) < Effect.WRITES

    def is_inert(self, expr: Expr) -> bool:
        """Return whether an expression may be evaluated sooner or later than others."""
        return self._effect(expr) is Effect.NONE

    def acts(self, expr: Expr, leaves: Collection[Expr] = ()) -> list[Expr]:
        """Return what an expression does to cells, in order; `leaves` are whole acts."""
        return [
            node
            for node in post_order(expr, below=lambda n: () if n in leaves else self._active(n))
            if (not self.is_inert(node) if node in leaves else _own_effect(node))
        ]

    def _active(self, node: Expr) -> tuple[Expr, ...]:
        return tuple(child for child in _evaluated(node) if not self.is_inert(child))

    def _effect(self, expr: Expr) -> Effect:
        for node in post_order(expr, below=self._unjudged):
            if node not in self._effects:
                below = (self._effects[child] for child in _evaluated(node))
                self._effects[node] = max((_own_effect(node), *below))
        return self._effects[expr]

    def _unjudged(self, node: Expr) -> tuple[Expr, ...]:
        return () if node in self._effects else _evaluated(node)

    def _fresh_type(self, expr: Expr) -> Type | None:
        match expr:
            case Constant(value):
                return TensorType(value.shape, DType.of(value.dtype))
            case Tuple(fields):
                found = [self.type_of(each) for each in fields]
                known = tuple(each for each in found if each is not None)
                return TupleType(known) if len(known) == len(found) else None
            case Project(value, index):
                whole = self.type_of(value)
                return whole.fields[index] if isinstance(whole, TupleType) else None
            case Call(OpRef(name), args):
                return self._result(expr, name, args)
            case _:
                return None

    def _result(self, call: Call, name: str, args: tuple[Expr, ...]) -> Type | None:
        types = [self.type_of(each) for each in args]
        known = tuple(each for each in types if each is not None)
        if len(known) < len(types):
            return None
        try:
            return result_type(OPERATORS[name], call, known)
        except CodesignError:
            return None


def _own_effect(node: Expr) -> Effect:
    match node:
        case RefWrite():
            return Effect.WRITES
        case Call(callee) if not isinstance(callee, OpRef | Constructor):
            return Effect.WRITES
        case RefRead() | RefNew():
            return Effect.READS
        case _:
            return Effect.NONE


def _evaluated(node: Expr) -> tuple[Expr, ...]:
    return () if isinstance(node, Function) else children(node)
