"""fold-constant: compute what constants determine.

    let %two = add(1f, 1f); add(multiply(%two, 3f), %x)
becomes
    add(6f, %x)

Calls of operators on constants become their value, also where the constants have names. An `if` of
a constant becomes the branch that is taken, a `match` of what a constructor or a tuple made becomes
the first clause that fits, a field of a written tuple the field.

Laws: the answer is the same bit for bit, so are the types; a second run changes nothing. A call
that refuses its constants stays: it may stand in a branch that is never taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from codesign.compiler.analysis.annotate import keeping_types
from codesign.compiler.analysis.boundaries import with_boundaries
from codesign.compiler.analysis.effects import Effect, Effects
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    If,
    Let,
    Match,
    OpRef,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Project,
    Tuple,
    Var,
    Wildcard,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import ATOMS
from codesign.ir.relay.types import UNKNOWN, TensorType, Type, TypeCall
from codesign.ir.relay.visit import children, post_order, use_counts, with_children
from codesign.ops.operator import Value
from codesign.ops.table import OPERATORS


@final
@dataclass(frozen=True, slots=True)
class FoldConstant:
    """Replace what constants determine by its value.

    A value of more than `max_elements` elements stays a call.
    """

    name: ClassVar[str] = "fold-constant"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    max_elements: int = 1 << 26

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such expressions replaced."""
        typed = current = with_boundaries(module)
        is_done = False
        while not is_done:
            once = _Once(self.max_elements)
            folded = keeping_types(current, once)
            is_done = folded is current or not once.is_waiting
            current = folded
        return module if current is typed else current


@final
@dataclass(slots=True)
class _Once:
    """Folds a module once; says whether a field waits for effects that may be gone then."""

    max_elements: int
    is_waiting: bool = False

    def __call__(self, module: Module) -> Module:
        folded, self.is_waiting = _folded_once(module, self.max_elements)
        return folded


def _folded_once(module: Module, max_elements: int) -> tuple[Module, bool]:
    effects, types = Effects(module), _types_of_matches(module)
    functions: dict[str, Function] = {}
    is_waiting = False
    for name, function in module.functions.items():
        folding = _Folding(function, max_elements, effects.of_all(function), types)
        new = folding.folded()
        assert isinstance(new, Function), "a global function must stay a function"
        functions[name] = new
        is_waiting |= folding.is_waiting
    same = all(functions[name] is old for name, old in module.functions.items())
    return (module if same else module.with_functions(functions)), is_waiting


def _types_of_matches(module: Module) -> Mapping[Expr, Type]:
    """Return types where matches may go, with what told the types of their variables."""
    if any(isinstance(node, Match) for node in post_order(*module.functions.values())):
        return infer_types(module)
    return {}


@final
class _Folding:
    """What the nodes of one function become; a way that is never taken is not looked at."""

    def __init__(
        self,
        function: Function,
        max_elements: int,
        effects: Mapping[Expr, Effect],
        types: Mapping[Expr, Type],
    ) -> None:
        self.is_waiting = False
        """Whether a tuple stays for what evaluating one of its fields may do."""
        self._function = function
        self._counts = use_counts(function)
        self._max_elements = max_elements
        self._effects = effects
        self._types = types
        self._new: dict[Expr, Expr] = {}
        self._plain: set[Expr] = set()
        """Tuples and calls of constructors that are made of atoms and of such."""
        self._made: dict[Expr, Expr] = {}
        """Of a variable its value where that is plain."""
        self._taken: dict[Expr, Expr] = {}
        """Of lets that go, decided ifs and matches: the node whose value is theirs."""
        self._bound: dict[Expr, list[tuple[Var, Expr]]] = {}
        """Of a decided match: what its clause's variables are bound to."""

    def folded(self) -> Expr:
        for node in post_order(self._function, below=self._below):
            if node in self._taken:
                self._new[node] = self._way(node)
            elif node not in self._new:
                rebuilt = with_children(node, tuple(self._new[each] for each in children(node)))
                self._new[node] = new = self._rule(node, rebuilt)
                if self._is_made(new) and all(map(self._is_plain, _fields(new))):
                    self._plain.add(new)
        return self._new[self._function]

    def _below(self, node: Expr) -> Iterator[Expr]:
        match node:
            case Let(var, value, body):
                yield value
                if self._bind(var, self._new[value]):
                    self._taken[node] = body
                yield from (var, body)
            case If(condition, then, otherwise):
                yield condition
                match self._new[condition]:
                    case Constant(truth):
                        self._taken[node] = then if bool(truth) else otherwise
                        yield self._taken[node]
                    case _:
                        yield from (then, otherwise)
            case Match(value):
                yield value
                if self._decide(node, self._new[value]):
                    yield self._taken[node]
                else:
                    yield from children(node)
            case _:
                yield from children(node)

    def _way(self, node: Expr) -> Expr:
        body = self._new[self._taken[node]]
        for var, value in reversed(self._bound.get(node, ())):
            body = self._let(var, value, body)
        return body

    def _bind(self, var: Var, value: Expr) -> bool:
        """Note what a variable is; return whether that takes its place everywhere."""
        is_plain = var.annotation is None or (
            isinstance(var.annotation, TensorType) and UNKNOWN not in var.annotation.shape
        )
        if isinstance(value, Constant) and is_plain and var not in self._new:
            self._new[var] = value
            return True
        if value in self._plain:
            self._made[var] = value
        return False

    def _rule(self, original: Expr, rebuilt: Expr) -> Expr:
        match rebuilt:
            case Project(value, index) if isinstance(made := self._known(value), Tuple):
                assert isinstance(original, Project), "a field is rebuilt as one"
                is_free = value is not made or made in self._plain or self._may_go(original.value)
                self.is_waiting |= not is_free
                return made.fields[index] if is_free and index < len(made.fields) else rebuilt
            case Call(OpRef(), args):
                known = self._values(args)
                return rebuilt if known is None else self._computed(rebuilt, known)
            case _:
                return rebuilt

    def _known(self, value: Expr) -> Expr:
        return self._made.get(value, value)

    def _is_plain(self, value: Expr) -> bool:
        return isinstance(value, ATOMS) or value in self._plain

    def _may_go(self, value: Expr) -> bool:
        """Return whether a value writes nothing, and reads nothing that others share."""
        if self._effects[value] & Effect.WRITES:
            return False
        return all(self._counts[each] == 1 for each in post_order(value, below=self._reading))

    def _reading(self, node: Expr) -> Iterator[Expr]:
        if not isinstance(node, Function):
            yield from (each for each in children(node) if self._effects[each] & Effect.READS)

    def _is_made(self, value: Expr) -> bool:
        return isinstance(value, Tuple) or (
            isinstance(value, Call) and isinstance(value.callee, Constructor)
        )

    # --- matches ----------------------------------------------------------------------------------

    def _decide(self, node: Match, value: Expr) -> bool:
        """Note the clause that fits a known value and what it binds; return whether one does."""
        if not self._is_made(self._known(value)):
            return False
        for clause in node.clauses:
            bound: list[tuple[Var, Expr]] = []
            fits = self._fits(clause.pattern, value, bound)
            if fits is None:
                return False
            if fits:
                self._taken[node] = clause.body
                self._bound[node] = [each for each in bound if not self._bind_field(*each)]
                return True
        return False

    def _bind_field(self, var: Var, value: Expr) -> bool:
        if isinstance(value, Var) and var.annotation is None:
            self._new[var] = value
            if value in self._made:
                self._made[var] = self._made[value]
            return True
        return self._bind(var, value)

    def _let(self, var: Var, value: Expr, body: Expr) -> Expr:
        """Return a `let` that says the type of an empty list, which nothing else may say."""
        type_ = self._types.get(var)
        if var.annotation is None and isinstance(type_, TypeCall) and self._is_made(value):
            typed = Var(var.name, type_)
            return Let(typed, value, Let(var, typed, body, var.span), var.span)
        return Let(var, value, body, var.span)

    def _fits(self, pattern: Pattern, value: Expr, bound: list[tuple[Var, Expr]]) -> bool | None:
        """Return whether a pattern fits, None where that is not known; note what it binds."""
        match pattern:
            case Wildcard():
                if isinstance(value, Call) and isinstance(value.callee, OpRef):
                    bound.append((Var("_"), value))
                    return True
                return True if self._is_plain(value) else None
            case PatternVar(var):
                bound.append((var, value))
                return True
            case PatternConstructor(name, fields):
                made = self._known(value)
                if not isinstance(made, Call) or not isinstance(made.callee, Constructor):
                    return None
                return made.callee.name == name and self._all_fit(fields, made.args, bound)
            case PatternTuple(fields):
                made = self._known(value)
                return (
                    self._all_fit(fields, made.fields, bound) if isinstance(made, Tuple) else None
                )

    def _all_fit(
        self, patterns: tuple[Pattern, ...], values: tuple[Expr, ...], bound: list[tuple[Var, Expr]]
    ) -> bool | None:
        results = [self._fits(p, v, bound) for p, v in zip(patterns, values, strict=True)]
        if False in results:
            return False
        return None if None in results else True

    # --- operators --------------------------------------------------------------------------------

    def _values(self, args: tuple[Expr, ...]) -> list[Value] | None:
        values: list[Value] = []
        for arg in args:
            match self._known(arg):
                case Constant(value):
                    values.append(value)
                case Tuple(fields) if all(isinstance(each, Constant) for each in fields):
                    values.append(tuple(_array(each) for each in fields))
                case _:
                    return None
        return values

    def _computed(self, call: Call, known: list[Value]) -> Expr:
        assert isinstance(call.callee, OpRef), "operators are computed"
        reference = OPERATORS[call.callee.name].reference
        try:
            value = reference(*known, *(() if call.attrs is None else (call.attrs,)))
        except CodesignError:
            return call
        return call if _size(value) > self._max_elements else _constant(value, call)


def _fields(value: Expr) -> tuple[Expr, ...]:
    match value:
        case Tuple(fields):
            return fields
        case Call(_, args):
            return args
        case _:
            return ()


def _array(expr: Expr) -> Array:
    assert isinstance(expr, Constant), "known fields are constants"
    return expr.value


def _size(value: Value) -> int:
    return sum(map(_size, value)) if isinstance(value, tuple) else np.asarray(value).size


def _constant(value: Value, call: Call) -> Expr:
    if isinstance(value, tuple):
        return Tuple(tuple(_constant(each, call) for each in value), call.span)
    return Constant(np.asarray(value), call.span)
