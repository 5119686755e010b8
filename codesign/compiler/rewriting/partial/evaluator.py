"""The partial evaluator: runs what is known, writes down what is not, block by block.

A cell of which only this program knows is virtual: its content is kept here, and the residual
program has neither the cell nor its reads and writes. It becomes real, with what it holds at that
moment, where something unknown may reach it: a call, a function that is a value, a branch that is
not decided. What real cells hold is known until something unknown may write them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never, final

from codesign.compiler.analysis.effects import Effect, Effects
from codesign.compiler.analysis.evaluation import is_primitive
from codesign.compiler.rewriting.partial.known import computed, matched, tuple_of
from codesign.compiler.rewriting.partial.limits import Limits
from codesign.compiler.rewriting.partial.residual import Atom, Residual, Steps
from codesign.compiler.rewriting.partial.typing import Types, Typing, substituted
from codesign.compiler.rewriting.partial.values import (
    Block,
    KnownCell,
    KnownClosure,
    KnownData,
    KnownTuple,
    Partial,
    of_atom,
    of_fields,
    virtual_cells,
)
from codesign.compiler.trampoline import run
from codesign.diagnostics import InternalError
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
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
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import Names
from codesign.ir.relay.types import Type, TypeVar
from codesign.ir.relay.visit import free_variables

Environment: TypeAlias = dict[Var, Partial]


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """A call, what its arguments are, and what type parameters mean where it stands."""

    call: Call
    args: tuple[Partial, ...]
    types: Types


@final
class Evaluator:
    """Evaluates the functions of one module in A-normal form."""

    def __init__(
        self, module: Module, types: Mapping[Expr, Type], names: Names, limits: Limits
    ) -> None:
        self._module = module
        self._typing = Typing(types)
        self._names = names
        self._limits = limits
        self._effects = Effects(module)
        self._residual = Residual(self._written)
        self._free: dict[Expr, tuple[Var, ...]] = {}

    def function(self, function: Function) -> Function:
        """Return a global function with what is known done."""
        self._residual.store = {}
        block = Block()
        environment = {param: of_atom(param) for param in function.params}
        with self._limits.running(function):
            body = run(self._closed(function.body, environment, {}, block))
        return replace(function, body=body)

    # --- blocks -----------------------------------------------------------------------------------

    def _closed(self, expr: Expr, env: Environment, types: Types, block: Block) -> Atom:
        """Evaluate a block to its end; return it as one expression."""
        result = yield self._eval(expr, env, types, block)
        body: Expr = yield self._residual.atom(result, block)
        block.is_open = False
        lines = block.lines
        if lines and lines[-1][0] is body and lines[-1][0].annotation is None:
            body = lines.pop()[1]  # a call in tail position stays one
        for var, value in reversed(lines):
            body = Let(var, value, body, value.span)
        return body

    # --- expressions ------------------------------------------------------------------------------

    def _eval(self, expr: Expr, env: Environment, types: Types, block: Block) -> Steps:
        while isinstance(expr, Let):
            value = yield self._value(expr.value, expr.var, env, types, block)
            found = self._typing.of(expr.value, types)
            env[expr.var] = yield self._annotated(expr.var, value, found, types, block)
            expr = expr.body
        return (yield self._value(expr, None, env, types, block))

    def _annotated(
        self, var: Var, value: Partial, found: Type | None, types: Types, block: Block
    ) -> Steps:
        """Return the value, of a type, of a variable: at a boundary that of a new variable."""
        wanted = substituted(var.annotation, types)
        return (yield self._residual.as_type(wanted, var.name, value, found, block))

    def _value(
        self, expr: Expr, name: Var | None, env: Environment, types: Types, block: Block
    ) -> Steps:
        match expr:
            case Var():
                return env[expr]
            case Constant() | GlobalVar() | Constructor():
                return of_atom(expr)
            case Function():
                return self._closure(expr, name, env, types)
            case Tuple(fields):
                return of_fields(KnownTuple((yield from self._all(fields, env, types, block))))
            case Project(value, index):
                (known,) = yield from self._all((value,), env, types, block)
                if isinstance(known.static, KnownTuple):
                    return known.static.fields[index]
                atom = yield self._residual.atom(known, block)
                return self._residual.unknown(block, replace(expr, value=atom))
            case Call():
                return (yield self._call(expr, env, types, block))
            case If():
                return (yield self._if(expr, env, types, block))
            case Match():
                return (yield self._match(expr, env, types, block))
            case RefNew() | RefRead() | RefWrite():
                return (yield self._on_cell(expr, env, types, block))
            case Let():
                return (yield self._eval(expr, env, types, block))
            case OpRef():
                raise InternalError("an operator stands only where it is called")
            case _:
                assert_never(expr)

    def _all(
        self, operands: tuple[Expr, ...], env: Environment, types: Types, block: Block
    ) -> Generator[Any, Any, tuple[Partial, ...]]:
        """Return the values of operands, which are atoms."""
        found = []
        for each in operands:
            found.append((yield self._value(each, None, env, types, block)))  # noqa: PERF401
        return tuple(found)

    def _closure(
        self, function: Function, name: Var | None, env: Environment, types: Types
    ) -> Partial:
        if is_primitive(function):
            return of_atom(function)
        free = self._free_of(function)
        captured = {var: env[var] for var in free if var is not name}
        itself = name if name in free else None
        return Partial(KnownClosure(function, captured, types, itself))

    def _free_of(self, node: Expr) -> tuple[Var, ...]:
        if node not in self._free:
            self._free[node] = free_variables(node)
        return self._free[node]

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, call: Call, env: Environment, types: Types, block: Block) -> Steps:
        args = yield from self._all(call.args, env, types, block)
        match call.callee:
            case OpRef():
                return (yield self._operator(call, args, block))
            case Constructor() as constructor:
                return self._made(call, constructor, args, types)
            case _:
                pass
        callee = yield self._value(call.callee, None, env, types, block)
        match callee.static:
            case Constructor() as constructor:
                return self._made(call, constructor, args, types)
            case KnownClosure() as closure if self._limits.allows(closure.function, args):
                own = closure.captured
                if closure.itself is not None:
                    own = {**own, closure.itself: callee}
                meaning = {**closure.types, **self._typing.meaning(closure.function, call, types)}
                given = _Given(call, args, types)
                return (yield self._inlined(closure.function, given, own, meaning, block))
            case _:
                pass
        if isinstance(callee.atom, GlobalVar):
            function = self._module.functions[callee.atom.name]
            if self._limits.allows(function, args):
                own_types = self._typing.meaning(function, call, types)
                given = _Given(call, args, types)
                return (yield self._inlined(function, given, {}, own_types, block))
        return (yield self._unknown_call(call, callee, args, block))

    def _operator(self, call: Call, args: tuple[Partial, ...], block: Block) -> Steps:
        known = computed(call, args)
        if known is not None:
            return known
        atoms = yield from self._residual.atoms(args, block)
        return self._residual.unknown(block, replace(call, args=atoms))

    def _made(
        self, call: Call, constructor: Constructor, args: tuple[Partial, ...], types: Types
    ) -> Partial:
        return of_fields(KnownData(constructor, args, self._typing.of(call, types), call.span))

    def _inlined(
        self,
        function: Function,
        given: _Given,
        own: Mapping[Var, Partial],
        types: Types,
        block: Block,
    ) -> Steps:
        env = dict(own)
        for param, arg, node in zip(function.params, given.args, given.call.args, strict=True):
            found = self._typing.of(node, given.types)
            env[param] = yield self._annotated(param, arg, found, types, block)
        with self._limits.running(function, given.args):
            result = yield self._eval(function.body, env, types, block)
        wanted = self._typing.of(given.call, given.types)
        found = self._typing.result(function, types)
        return (yield self._residual.as_type(wanted, "result", result, found, block))

    def _unknown_call(
        self, call: Call, callee: Partial, args: tuple[Partial, ...], block: Block
    ) -> Steps:
        function = yield self._residual.atom(callee, block)
        atoms = yield from self._residual.atoms(args, block)
        writes = not isinstance(function, GlobalVar) or bool(
            self._effects.latent(function.name) & Effect.WRITES
        )
        if writes:
            self._residual.forget()
        return self._residual.unknown(block, replace(call, callee=function, args=atoms))

    # --- branches ---------------------------------------------------------------------------------

    def _if(self, node: If, env: Environment, types: Types, block: Block) -> Steps:
        (condition,) = yield from self._all((node.condition,), env, types, block)
        if isinstance(condition.atom, Constant):
            way = node.then if bool(condition.atom.value) else node.otherwise
            return (yield self._eval(way, env, types, block))
        yield from self._make_real((node.then, node.otherwise), env, block)
        atom = yield self._residual.atom(condition, block)
        then, otherwise = yield from self._ways((node.then, node.otherwise), env, types)
        return self._residual.unknown(block, If(atom, then, otherwise, node.span))

    def _match(self, node: Match, env: Environment, types: Types, block: Block) -> Steps:
        (value,) = yield from self._all((node.value,), env, types, block)
        found = matched(node, value)
        if found is not None:
            clause, bound = found
            env.update(bound)
            return (yield self._eval(clause.body, env, types, block))
        bodies = tuple(clause.body for clause in node.clauses)
        yield from self._make_real(bodies, env, block)
        atom = yield self._residual.atom(value, block)
        patterns = [self._renamed(clause.pattern, env, types) for clause in node.clauses]
        new = yield from self._ways(bodies, env, types)
        clauses = tuple(Clause(p, body) for p, body in zip(patterns, new, strict=True))
        return self._residual.unknown(block, replace(node, value=atom, clauses=clauses))

    def _ways(
        self, ways: tuple[Expr, ...], env: Environment, types: Types
    ) -> Generator[Any, Any, list[Expr]]:
        """Evaluate branches apart; afterwards known is what all of them left as it was."""
        before = self._residual.store
        stores, bodies = [], []
        for way in ways:
            self._residual.store = dict(before)
            body: Expr = yield self._closed(way, env, types, Block())
            stores.append(self._residual.store)
            bodies.append(body)
        self._residual.store = {
            cell: held
            for cell, held in before.items()
            if all(each.get(cell) is held for each in stores)
        }
        return bodies

    def _make_real(
        self, ways: tuple[Expr, ...], env: Environment, block: Block
    ) -> Generator[Any, Any, None]:
        """Make cells real that branches may reach."""
        roots = [env[var] for way in ways for var in self._free_of(way) if var in env]
        for cell in virtual_cells(roots, self._residual.store):
            yield self._residual.real(cell, block)

    def _renamed(self, pattern: Pattern, env: Environment, types: Types) -> Pattern:
        match pattern:
            case Wildcard():
                return pattern
            case PatternVar(var):
                new = Var(var.name, substituted(var.annotation, types), var.span)
                env[var] = of_atom(new)
                return PatternVar(new)
            case PatternConstructor(fields=fields) | PatternTuple(fields):
                return replace(pattern, fields=tuple(self._renamed(f, env, types) for f in fields))
            case _:
                assert_never(pattern)

    # --- cells ------------------------------------------------------------------------------------

    def _on_cell(
        self, node: RefNew | RefRead | RefWrite, env: Environment, types: Types, block: Block
    ) -> Steps:
        match node:
            case RefNew(value):
                (held,) = yield from self._all((value,), env, types, block)
                cell = KnownCell(None, self._typing.of(node, types), node.span)
                self._residual.store[cell] = held
                return Partial(cell)
            case RefRead(reference):
                (known,) = yield from self._all((reference,), env, types, block)
                if isinstance(known.static, KnownCell) and known.static in self._residual.store:
                    return self._residual.store[known.static]
                atom = yield self._residual.atom(known, block)
                read = self._residual.unknown(block, RefRead(atom, node.span))
                if isinstance(known.static, KnownCell):
                    self._residual.store[known.static] = read
                return read
            case RefWrite(reference, value):
                known, held = yield from self._all((reference, value), env, types, block)
                yield self._write(node, known, held, block)
                return tuple_of(())
            case _:
                assert_never(node)

    def _write(self, node: RefWrite, known: Partial, held: Partial, block: Block) -> Steps:
        cell = known.static if isinstance(known.static, KnownCell) else None
        if cell is not None and cell.var is None:
            if cell not in virtual_cells([held], self._residual.store):
                self._residual.store[cell] = held
                return held
            yield self._residual.real(cell, block)
        reference = yield self._residual.atom(known, block)
        value = yield self._residual.atom(held, block)
        self._residual.emit(block, RefWrite(reference, value, node.span))
        if cell is None:
            self._residual.forget()
        else:
            self._residual.store[cell] = held
        return held

    # --- functions that are written down ----------------------------------------------------------

    def _written(self, value: Partial, closure: KnownClosure, block: Block) -> Steps:
        """Write a function down: its body is evaluated with nothing known of its parameters."""
        function = closure.function
        own = {each: TypeVar(self._names.fresh(each.name)) for each in function.type_params}
        types = {**closure.types, **own}
        env = dict(closure.captured)
        params = []
        for param in function.params:
            new = Var(param.name, self._typing.of(param, types), param.span)
            env[param] = of_atom(new)
            params.append(new)
        var = Var("f", None, function.span)
        value.atom, value.block = var, block
        if closure.itself is not None:
            env[closure.itself] = value
        outer, self._residual.store = self._residual.store, {}
        with self._limits.running(function):
            body: Expr = yield self._closed(function.body, env, types, Block())
        self._residual.store = outer
        result = self._typing.result(function, types)
        written = Function(
            tuple(params), body, result, function.attributes, tuple(own.values()), function.span
        )
        block.lines.append((var, written))
        return value
