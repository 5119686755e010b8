"""What waits until more is known about types: each may be tried again whenever that happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, final

from codesign.compiler.analysis.type_mistakes import problem, projected
from codesign.compiler.analysis.unify import Unifier
from codesign.diagnostics import CodesignError, Span
from codesign.ir.relay.expr import Call, Project
from codesign.ir.relay.types import FuncType, Hole, TupleType, Type, type_text
from codesign.ops.gradual import result_type
from codesign.ops.operator import Operator


@final
@dataclass(slots=True, eq=False)
class Relation:
    """An operator's relation, tried where the types of all arguments are known."""

    record: Operator
    call: Call
    args: tuple[Type, ...]
    result: Hole
    is_done: bool = False
    _seen: tuple[Type, ...] | None = field(default=None, repr=False)

    def waits_for(self) -> tuple[Type, ...]:
        """Return the types that must be known."""
        return self.args

    def attempt(self, unifier: Unifier[Constraint]) -> None:
        """Find the result's type; raise CodesignError where the operator refuses the arguments."""
        if any(map(unifier.is_poisoned, self.args)):
            self.is_done = True
            unifier.poison(self.result)
            return
        types = tuple(map(unifier.resolve, self.args))
        if types == self._seen or any(map(unifier.open_holes, types)):
            return
        self.is_done, self._seen = True, types
        try:
            found = result_type(self.record, self.call, types)
        except CodesignError:
            unifier.poison(self.result)
            raise
        if not unifier.flow(found, self.result):
            expected = type_text(unifier.resolve(self.result))
            shown = f"found {type_text(found)}, expected {expected}"
            raise problem(f"{self.record.name} gives another type", self.call.span, shown)


@final
@dataclass(slots=True, eq=False)
class Field:
    """A field of a value, which must turn out to be a tuple."""

    node: Project
    value: Type
    result: Hole
    is_done: bool = False

    def waits_for(self) -> tuple[Type, ...]:
        """Return the types that must be known."""
        return (self.value,)

    def attempt(self, unifier: Unifier[Constraint]) -> None:
        """Find the field's type; raise CodesignError where there is no such field."""
        value = unifier.head(self.value)
        if isinstance(value, Hole):
            if unifier.is_poisoned(value):
                self.is_done = True
                unifier.poison(self.result)
            return
        if self.is_done and not isinstance(value, TupleType):
            return
        self.is_done = True
        try:
            found = projected(self.node, unifier.resolve(value))
        except CodesignError:
            unifier.poison(self.result)
            raise
        if not unifier.flow(found, self.result):
            expected = type_text(unifier.resolve(self.result))
            shown = f"found {type_text(found)}, expected {expected}"
            raise problem("the field has another type", self.node.span, shown)


@final
@dataclass(slots=True, eq=False)
class Instance:
    """A use of a polymorphic function whose own type is not known yet."""

    function: FuncType
    result: Hole
    span: Span | None
    is_done: bool = False

    def waits_for(self) -> tuple[Type, ...]:
        """Return the types that must be known."""
        return (self.function,)

    def attempt(self, unifier: Unifier[Constraint]) -> None:
        """Choose the type parameters anew once the function's type is known."""
        if not self.is_done and unifier.is_complete(self.function):
            resolved = unifier.resolve(self.function)
            assert isinstance(resolved, FuncType), "filling in keeps a function type one"
            self._meet(unifier.instance(resolved), unifier)

    def assume_monomorphic(self, unifier: Unifier[Constraint]) -> None:
        """Say that the function calls itself with its own type parameters."""
        self._meet(FuncType(self.function.params, self.function.result), unifier)

    def _meet(self, type_: FuncType, unifier: Unifier[Constraint]) -> None:
        self.is_done = True
        if not unifier.flow(type_, self.result):
            expected = type_text(unifier.resolve(self.result))
            shown = f"found {type_text(unifier.resolve(type_))}, expected {expected}"
            advice = "annotate its parameters and its result"
            raise problem("a polymorphic function is used otherwise", self.span, shown, advice)


@final
@dataclass(slots=True, eq=False)
class Flow:
    """What flowed once flows again where its type has become looser."""

    found: Type
    expected: Type
    is_done: bool = True

    def waits_for(self) -> tuple[Type, ...]:
        """Return the types that may become looser."""
        return (self.found,)

    def attempt(self, unifier: Unifier[Constraint]) -> None:
        """Loosen what is expected; a mistake has been reported where it was found first."""
        unifier.flow(self.found, self.expected)


Constraint: TypeAlias = Relation | Field | Instance | Flow
