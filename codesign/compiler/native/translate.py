"""Relay to control: every function literal becomes a function, every expression blocks.

Evaluation is the interpreter's: on demand, left to right, each node at most once in an activation.
Where a node is shared between ways that part and join again, a value that may be null says whether
it has been evaluated. What a function finds in its closure is read when it is needed; a function
that calls itself finds itself as the closure that was called, so that no closure holds itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never, final

from codesign.compiler.native.blocks import OpenBlock, Task, Writer, drive
from codesign.compiler.native.checks import Checks
from codesign.compiler.native.decide import Decision, Leaf
from codesign.compiler.native.known import Known
from codesign.compiler.native.module import FunctionToWrite, ModuleWriter
from codesign.compiler.native.ways import Way, join
from codesign.compiler.needs import Needs
from codesign.ir.control.program import (
    Branch,
    BranchNull,
    CallClosure,
    CallFunction,
    Function,
    FunctionValue,
    GetField,
    Literal,
    MakeCell,
    MakeClosure,
    MakeData,
    MakeTuple,
    Operator,
    Program,
    ReadCell,
    Return,
    TailCall,
    TailCallClosure,
    Value,
    WriteCell,
)
from codesign.ir.relay import expr as relay
from codesign.ir.relay.expr import Expr, pattern_variables
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TupleType, Type


def translate(module: Module, types: Mapping[Expr, Type]) -> Program:
    """Return a module as control; `types` are of `infer_types`.

    Only functions that `main` reaches are written. Operators are still apart and nothing is said
    about ownership.
    """
    writer = ModuleWriter(module, types)
    writer.request_global("main")
    functions: list[Function] = []
    needs = Needs()
    while writer.waiting:
        functions.append(_FunctionTranslator(writer, needs, writer.waiting.popleft()).run())
    functions += writer.constructor_functions()
    return Program(tuple(functions), "main", writer.constructor_names, tuple(writer.sites))


@final
class _FunctionTranslator:
    def __init__(self, module: ModuleWriter, needs: Needs, wanted: FunctionToWrite) -> None:
        self.module = module
        self.needs = needs
        self.wanted = wanted
        self.writer = Writer()
        self.known = Known(needs.use_counts(wanted.literal.body))
        self.fields: dict[Value, tuple[Value, ...]] = {}
        self.functions: dict[Value, str] = {}
        self.static: set[Value] = set()
        self.own = self.writer.value("self")
        self.checks = Checks(self.writer, module, self._field)

    def run(self) -> Function:
        literal = self.wanted.literal
        params = tuple(self.writer.value(p.name, self._type(p)) for p in literal.params)
        self.functions[self.own] = self.wanted.name
        for param, value in zip(literal.params, params, strict=True):
            self.checks.annotation(param, value)
            self.known.remember(param, value)
        if self.needs.has_lengths(literal):
            self.checks.lengths(literal.params, params)
        drive(self._leave_with(literal.body))
        blocks = tuple(block.closed() for block in self.writer.blocks)
        own = None if self.wanted.is_static else self.own
        return Function(self.wanted.name, own, params, blocks)

    # --- what is known on this way ----------------------------------------------------------------

    def _type(self, expr: Expr) -> Type | None:
        return self.module.types.get(expr)

    def _tuple_type(self, expr: Expr) -> TupleType:
        type_ = self.module.types[expr]
        assert isinstance(type_, TupleType), "only tuples have fields; the types have seen to it"
        return type_

    # --- values -----------------------------------------------------------------------------------

    def _value(self, node: Expr) -> Task:
        """Return the value of a node, evaluating it where it is not known."""
        self.known.demand(node)
        known = self.known.value(node)
        if known is not None and not known.is_maybe:
            return known
        if known is not None:
            return (yield from self._demand(node, known))
        value = yield from self._fresh(node)
        self.known.remember(node, value)
        return value

    def _values(self, nodes: Sequence[Expr]) -> Task:
        values = []
        for node in nodes:
            values.append((yield self._value(node)))  # noqa: PERF401  (no yield in comprehensions)
        return tuple(values)

    def _demand(self, node: Expr, maybe: Value) -> Task:
        """Evaluate a node on the ways on which it has not been."""
        absent, present = self.writer.open(), self.writer.open()
        self.writer.finish(BranchNull(maybe, absent.label, present.label))
        mark = self.known.mark()
        self.writer.current = absent
        value = yield from self._fresh(node)
        ways = [Way(self.writer.current, value, self.known.roll_back(mark))]
        ways.append(Way(present, maybe, {}))
        joined = self._join(ways, self._type(node))
        self.known.remember(node, joined)
        return joined

    def _fresh(self, node: Expr) -> Task:
        writer = self.writer
        match node:
            case relay.Var():
                return self._variable(node)
            case relay.Constant(array):
                result = writer.value("c", self._type(node))
                writer.add(Literal(result, array))
                return result
            case relay.GlobalVar(name):
                return self._function_value(self.module.request_global(name))
            case relay.Constructor(name):
                return self._function_value(self.module.request_constructor(name))
            case relay.OpRef():
                raise AssertionError("an operator is no value; the types have seen to it")
            case relay.Function():
                return (yield from self._closure(node))
            case relay.Let(body=body):
                yield from self._bind(node)
                return (yield self._value(body))
            case relay.Tuple(fields):
                values = yield from self._values(fields)
                return self._tuple(values)
            case relay.Project(value, index):
                whole = yield self._value(value)
                return self._field(whole, index, self._tuple_type(value))
            case relay.If():
                return (yield from self._choose(node))
            case relay.Match():
                return (yield from self._match(node))
            case relay.Call(relay.OpRef()):
                return (yield from self._operator(node))
            case relay.Call():
                return (yield from self._call(node))
            case relay.RefNew(value):
                content = yield self._value(value)
                result = writer.value("cell")
                writer.add(MakeCell(result, content))
                return result
            case relay.RefRead(reference):
                cell = yield self._value(reference)
                result = writer.value("v", self._type(node))
                writer.add(ReadCell(result, cell))
                return result
            case relay.RefWrite(reference, value):
                cell, content = yield from self._values((reference, value))
                writer.add(WriteCell(cell, content))
                return self._tuple(())
            case _:
                assert_never(node)

    def _variable(self, var: relay.Var) -> Value:
        """Return what a variable of an outer function is: constant, or kept in the closure."""
        array = self.module.literals.get(var)
        if array is not None:
            result = self.writer.value("c", self._type(var))
            self.writer.add(Literal(result, array))
            return result
        name = self.module.static_names.get(var)
        if name is not None:
            return self._function_value(name)
        if var in self.wanted.own_names:
            return self.own
        place = self.wanted.captured.index(var)
        result = self.writer.value(var.name, self._type(var))
        self.writer.add(GetField(result, self.own, place, len(self.wanted.captured)))
        return result

    def _function_value(self, name: str) -> Value:
        result = self.writer.value("f")
        self.writer.add(FunctionValue(result, name))
        self.functions[result] = name
        self.static.add(result)
        return result

    def _closure(self, literal: relay.Function, own_name: relay.Var | None = None) -> Task:
        free = self.needs.free_variables(literal)
        outer = tuple(
            var
            for var in free
            if var is not own_name and (var in self.known or self._is_outer(var))
        )
        wanted = self.module.request_literal(literal, self.wanted.name, outer, free)
        if own_name is not None and wanted.is_static:
            self.module.static_names[own_name] = wanted.name
        if wanted.is_static:
            return self._function_value(wanted.name)
        captured = yield from self._values(wanted.captured)
        result = self.writer.value("f")
        self.writer.add(MakeClosure(result, wanted.name, captured))
        self.functions[result] = wanted.name
        return result

    def _is_outer(self, var: relay.Var) -> bool:
        return (
            var in self.wanted.captured
            or var in self.wanted.own_names
            or var in self.module.literals
            or var in self.module.static_names
        )

    def _tuple(self, fields: tuple[Value, ...]) -> Value:
        result = self.writer.value("t")
        self.writer.add(MakeTuple(result, fields))
        self.fields[result] = fields
        return result

    def _field(self, whole: Value, index: int, tuple_: TupleType) -> Value:
        known = self.fields.get(whole)
        if known is not None:
            return known[index]
        result = self.writer.value("v", tuple_.fields[index])
        self.writer.add(GetField(result, whole, index, len(tuple_.fields)))
        return result

    # --- binding ----------------------------------------------------------------------------------

    def _bind(self, let: relay.Let) -> Task:
        """Evaluate the value of a let and give it to the variable."""
        if isinstance(let.value, relay.Function) and let.value not in self.known:
            value = yield from self._closure(let.value, let.var)
            self.known.remember(let.value, value)
            self.known.demand(let.value)
        else:
            value = yield self._value(let.value)
        if value in self.static:
            self.module.static_names[let.var] = self.functions[value]
        if isinstance(let.value, relay.Constant):
            self.module.literals[let.var] = let.value.value
        self.checks.annotation(let.var, value)
        self.known.remember(let.var, value)

    # --- calls ------------------------------------------------------------------------------------

    def _operator(self, call: relay.Call) -> Task:
        assert isinstance(call.callee, relay.OpRef), "operators are called by name"
        args = yield from self._values(call.args)
        inputs: list[Value] = []
        for node, value in zip(call.args, args, strict=True):
            self._flatten(value, self._type(node), inputs)
        type_ = self._type(call)
        is_tuple = isinstance(type_, TupleType)
        parts = type_.fields if isinstance(type_, TupleType) else (type_,)
        results = tuple(self.writer.value("v", each) for each in parts)
        self.writer.add(Operator(results, call.callee.name, call.attrs, tuple(inputs), call.span))
        return self._tuple(results) if is_tuple else results[0]

    def _flatten(self, value: Value, type_: Type | None, leaves: list[Value]) -> None:
        if isinstance(type_, TupleType):
            for index, each in enumerate(type_.fields):
                self._flatten(self._field(value, index, type_), each, leaves)
        else:
            leaves.append(value)

    def _call(self, call: relay.Call) -> Task:
        if isinstance(call.callee, relay.Constructor):
            fields = yield from self._values(call.args)
            result = self.writer.value("d")
            self.writer.add(MakeData(result, self.module.tags[call.callee.name], fields))
            return result
        callee, *args = yield from self._values((call.callee, *call.args))
        result = self.writer.value("v", self._type(call))
        name = self.functions.get(callee)
        if name is None:
            self.writer.add(CallClosure(result, callee, tuple(args)))
        else:
            closure = None if callee in self.static else callee
            self.writer.add(CallFunction(result, name, closure, tuple(args)))
        return result

    # --- branches ---------------------------------------------------------------------------------

    def _choose(self, node: relay.If) -> Task:
        ways = []
        for block, arm in (yield from self._arms(node)):
            ways.append((yield from self._way(block, {}, arm)))
        return self._join(ways, self._type(node))

    def _arms(self, node: relay.If) -> Task:
        condition = yield self._value(node.condition)
        then, otherwise = self.writer.open(), self.writer.open()
        self.writer.finish(Branch(condition, then.label, otherwise.label))
        return (then, node.then), (otherwise, node.otherwise)

    def _match(self, node: relay.Match) -> Task:
        leaves = yield from self._decide(node)
        ways = []
        for leaf in leaves:
            clause = node.clauses[leaf.clause]
            ways.append((yield from self._way(leaf.block, leaf.bound, clause.body)))
        return self._join(ways, self._type(node))

    def _decide(self, node: relay.Match) -> Task:
        value = yield self._value(node.value)
        bound = {
            var: self.writer.value(var.name, self._type(var))
            for clause in node.clauses
            for var in pattern_variables(clause.pattern)
        }
        decision = Decision(self.writer, self.module, node, bound, self.fields)
        leaves: tuple[Leaf, ...] = yield from decision.write(value)
        return leaves

    def _way(self, block: OpenBlock, bound: Mapping[relay.Var, Value], body: Expr) -> Task:
        mark = self.known.mark()
        self._enter(block, bound)
        value = yield self._value(body)
        return Way(self.writer.current, value, self.known.roll_back(mark))

    def _enter(self, block: OpenBlock, bound: Mapping[relay.Var, Value]) -> None:
        self.writer.current = block
        for var, each in bound.items():
            self.checks.annotation(var, each)
            self.known.remember(var, each)

    def _join(self, ways: Sequence[Way], type_: Type | None) -> Value:
        return join(self.writer, self.known, ways, type_, self.module.types)

    # --- leaving ----------------------------------------------------------------------------------

    def _leave_with(self, node: Expr) -> Task:
        """Leave the function with the value of a node; a call in this place takes its place."""
        while isinstance(node, relay.Let) and node not in self.known:
            yield from self._bind(node)
            node = node.body
        if node in self.known:
            self.writer.finish(Return((yield self._value(node))))
            return
        match node:
            case relay.If():
                for block, arm in (yield from self._arms(node)):
                    mark = self.known.mark()
                    self._enter(block, {})
                    yield self._leave_with(arm)
                    self.known.roll_back(mark)
            case relay.Match():
                for leaf in (yield from self._decide(node)):
                    mark = self.known.mark()
                    self._enter(leaf.block, leaf.bound)
                    yield self._leave_with(node.clauses[leaf.clause].body)
                    self.known.roll_back(mark)
            case relay.Call(callee) if not isinstance(callee, relay.OpRef | relay.Constructor):
                called, *args = yield from self._values((callee, *node.args))
                name = self.functions.get(called)
                if name is None:
                    self.writer.finish(TailCallClosure(called, tuple(args)))
                else:
                    closure = None if called in self.static else called
                    self.writer.finish(TailCall(name, closure, tuple(args)))
            case _:
                self.writer.finish(Return((yield self._value(node))))
