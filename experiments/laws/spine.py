"""The body of main: statements one after the other, and a tuple of everything that they made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from codesign.ir.relay.expr import Call, Expr, Let, RefNew, RefRead, RefWrite, Tuple, Var
from codesign.ir.relay.types import FuncType, RefType, TupleType, Type
from experiments.laws.productions import holds_function, is_movable
from experiments.laws.writer import Scope, Writer

_STATEMENTS = {"value": 6, "shared": 3, "cell": 3, "write": 4, "read": 2, "function": 2, "call": 3}


@final
@dataclass(slots=True)
class Spine:
    """What has been bound so far, and what main will give."""

    writer: Writer
    scope: Scope
    bound: list[tuple[Var, Expr]] = field(default_factory=list)
    results: list[tuple[Expr, Type]] = field(default_factory=list)

    def close(self) -> tuple[Expr, TupleType]:
        """Return the statements around the tuple of all results, and its type."""
        for cell, kind in dict(self.scope.cells()).items():
            self.results.append((RefRead(cell), kind.value))
        body: Expr = Tuple(tuple(value for value, _ in self.results))
        for var, value in reversed(self.bound):
            body = Let(var, value, body)
        return body, TupleType(tuple(type_ for _, type_ in self.results))

    def bind(self, type_: Type, value: Expr, stem: str = "x") -> Var:
        """Bind a value to a new variable that later statements may use."""
        var = self.writer.variable(type_, stem)
        self.bound.append((var, value))
        self.scope = self.scope.adding((var, type_), (var, type_))
        return var

    def state(self, size: int) -> None:
        """Add one statement."""
        kinds = tuple(_STATEMENTS)
        match self.writer.draw.weighted(kinds, tuple(_STATEMENTS.values())):
            case "cell":
                content = self.plain_type()
                made = RefNew(self.writer.grow(content, self.scope, size))
                self.bind(RefType(content), made, "r")
            case "write" if self.scope.cells():
                cell, kind = self.writer.draw.one_of(self.scope.cells())
                written = RefWrite(cell, self.writer.grow(kind.value, self.scope, size))
                self.bound.append((Var("_"), written))
            case "read" if self.scope.cells():
                cell, kind = self.writer.draw.one_of(self.scope.cells())
                self.results.append((self.bind(kind.value, RefRead(cell)), kind.value))
            case "function":
                signature = self.writer.function_type(self.scope, 1, self.plain_type())
                self.bind(signature, self.writer.function(signature, self.scope, size), "f")
            case "call":
                self._call(size)
            case "shared":
                self._value(size, is_bound=False)
            case _:
                self._value(size, is_bound=True)

    def _value(self, size: int, *, is_bound: bool) -> None:
        type_ = self.plain_type()
        value = self.writer.grow(type_, self.scope, size)
        if is_bound:
            self.results.append((self.bind(type_, value), type_))
            return
        if not is_movable(value):  # one node that has an effect, reached twice in a row
            pair = TupleType((type_, type_))
            self.results.append((self.bind(pair, Tuple((value, value))), pair))
            return
        self.scope = self.scope.adding((value, type_), (value, type_))
        self.results.append((value, type_))

    def _call(self, size: int) -> None:
        """Call a function of the scope whose result main may give."""
        found = [
            (value, kind)
            for value, kind in self.scope.values
            if isinstance(kind, FuncType) and not holds_function(kind.result)
        ]
        if not found:
            return self._value(size, is_bound=True)
        callee, kind = self.writer.draw.one_of(found)
        value = Call(callee, self.writer.grow_all(kind.params, self.scope, size))
        self.results.append((self.bind(kind.result, value), kind.result))
        return None

    def plain_type(self) -> Type:
        """Return a type of values that may enter and leave main."""
        draw = self.writer.draw
        if draw.chance(0.7):
            return draw.tensor_type()
        found = self.writer.value_type(self.scope, 1)
        return draw.tensor_type() if holds_function(found) else found
