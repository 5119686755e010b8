"""Random Relay expressions of every kind of node, with sharing; well-formed, not well-typed."""

from __future__ import annotations

from hypothesis import strategies as st

from codesign.dtypes import DType
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Project,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
    Wildcard,
    pattern_variables,
)
from codesign.ir.relay.module import ConstructorDefinition, Module, TypeDefinition
from codesign.ir.relay.types import (
    UNKNOWN,
    FuncType,
    Hole,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from codesign.ops.table import call
from tests.support.relay_programs import integer

_A = TypeVar("A")
DATA_TYPES = {
    "List": TypeDefinition(
        "List",
        (_A,),
        (
            ConstructorDefinition("Cons", (_A, TypeCall("List", (_A,)))),
            ConstructorDefinition("Nil"),
        ),
    ),
    "Storage": TypeDefinition("Storage", (), (), is_extern=True),
}


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Draw a module of one or two functions."""
    names = ["main", "other"][: draw(st.integers(1, 2))]
    functions = {name: _Draw(draw, names).function() for name in names}
    return Module(functions, DATA_TYPES)


class _Draw:
    def __init__(self, draw: st.DrawFn, functions: list[str]) -> None:
        self._draw = draw
        self._functions = functions
        self._type_params: list[TypeVar] = []
        self._count = 0

    def _one_of(self, count: int) -> int:
        return self._draw(st.integers(0, count - 1))

    def _chance(self) -> bool:
        return self._draw(st.booleans())

    def function(self, known: tuple[Expr, ...] = (), size: int = 6) -> Function:
        own = (TypeVar(f"T{self._count}"),) if self._chance() else ()
        self._count += 1
        self._type_params += own
        params = tuple(self.variable() for _ in range(1 + self._one_of(2)))
        body = self.body((*known, *params), size)
        result = self.type_() if self._chance() else None
        attributes = {"Primitive": 1} if self._one_of(4) == 0 else {}
        for each in own:
            self._type_params.remove(each)
        return Function(params, body, result, attributes, own)

    def variable(self) -> Var:
        name = self._draw(st.sampled_from(["x", "y", "_", "odd/name:0"]))
        return Var(name, self.type_() if self._chance() else None)

    def type_(self, depth: int = 2) -> Type:
        match self._one_of(8 if depth else 3):
            case 0:
                return TensorType((2, UNKNOWN), DType.FLOAT32)
            case 1:
                return Hole() if self._chance() else TypeCall("Storage")
            case 2:
                return self._type_params[-1] if self._type_params else TensorType((), DType.BOOL)
            case 3:
                return TupleType(tuple(self.type_(depth - 1) for _ in range(self._one_of(3))))
            case 4:
                return TypeCall("List", (self.type_(depth - 1),))
            case 5:
                return RefType(self.type_(depth - 1))
            case 6:
                return FuncType((self.type_(depth - 1),), self.type_(depth - 1))
            case _:
                inner = TypeVar(f"U{depth}")
                return FuncType((inner, self.type_(depth - 1)), inner, (inner,))

    def body(self, known: tuple[Expr, ...], size: int) -> Expr:
        """Grow expressions from those that are known in the scope; return the last one."""
        grown = list(known)
        for _ in range(1 + self._one_of(max(size, 1))):
            grown.append(self._grow(grown, size // 2))
        return grown[-1]

    def _any(self, grown: list[Expr]) -> Expr:
        return self._draw(st.sampled_from(grown))

    def _grow(self, grown: list[Expr], size: int) -> Expr:
        a, b = self._any(grown), self._any(grown)
        scope = tuple(grown)
        match self._one_of(13):
            case 0:
                return call("add", a, b)
            case 1:
                return Tuple((a,) if self._chance() else (a, b))
            case 2:
                return Project(a, self._one_of(3))
            case 3:
                return If(a, self.body(scope, size), self.body(scope, size))
            case 4:
                var = self.variable()
                return Let(var, a, self.body((*scope, var), size))
            case 5:
                return self.function(scope, size)
            case 6:
                return Call(a, (b,))
            case 7:
                return Call(GlobalVar(self._draw(st.sampled_from(self._functions))), (a,))
            case 8:
                return RefNew(a) if self._chance() else RefRead(a)
            case 9:
                return RefWrite(a, b)
            case 10:
                return Call(Constructor("Cons"), (a, Call(Constructor("Nil"), ())))
            case 11:
                return Constructor("Cons") if self._chance() else integer(self._one_of(5))
            case _:
                return self._match(a, scope, size)

    def _match(self, value: Expr, scope: tuple[Expr, ...], size: int) -> Match:
        clauses = []
        for _ in range(self._one_of(4)):
            pattern = self._pattern(2)
            body = self.body((*scope, *pattern_variables(pattern)), size)
            clauses.append(Clause(pattern, body))
        return Match(value, tuple(clauses), self._chance())

    def _pattern(self, depth: int) -> Pattern:
        match self._one_of(5 if depth else 3):
            case 0:
                return Wildcard()
            case 1:
                return PatternVar(self.variable())
            case 2:
                return PatternConstructor("Nil")
            case 3:
                return PatternConstructor("Cons", (self._pattern(depth - 1), Wildcard()))
            case _:
                fields = tuple(self._pattern(depth - 1) for _ in range(self._one_of(3)))
                return PatternTuple(fields)
