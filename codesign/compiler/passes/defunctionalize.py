"""defunctionalize: make a higher-order program first-order.

    def @apply(%f: fn (int32) -> int32, %x: int32) { %f(%x) }
    def @main(%n: int32) { @apply(fn (%k: int32) { add(%k, %n) }, 3) }
becomes
    type Function1 { Closure1(int32) }
    def @apply(%f: Function1, %x: int32) { @call1(%f, %x) }
    def @main(%n: int32) { @apply(Closure1(%n), 3) }
    def @call1(%f: Function1, %k: int32) { match (%f) { Closure1(%n) => add(%k, %n) } }

Each type of functions becomes a data type with a constructor for each place where such a function
is made, which keeps what the function uses of its surroundings, and a function that calls it.

Functions with type parameters are copied for each choice of types first.

The pass refuses what it cannot: local functions with type parameters (partial-evaluate may do away
with them), main that takes or gives functions, function types with `?`. Laws: the answer is the
same bit for bit; afterwards no function is a value; a second run changes nothing.

Source: Reynolds, "Definitional Interpreters for Higher-Order Programming Languages" (1972).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, final

from codesign.compiler.analysis.annotate import without_unreached
from codesign.compiler.analysis.evaluation import is_primitive
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.rewriting.specialize import specialized
from codesign.diagnostics import CodesignError, Problem, Span
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    OpRef,
    PatternConstructor,
    PatternVar,
    Var,
)
from codesign.ir.relay.module import ConstructorDefinition, Module, TypeDefinition
from codesign.ir.relay.rename import Names, fresh_copy
from codesign.ir.relay.type_algebra import parts, type_leaves, with_parts
from codesign.ir.relay.types import (
    UNKNOWN,
    FuncType,
    TensorType,
    Type,
    TypeCall,
    type_text,
)
from codesign.ir.relay.visit import children, free_variables, post_order, with_children


@final
@dataclass(frozen=True, slots=True)
class Defunctionalize:
    """Replace functions that are values by values of data types."""

    name: ClassVar[str] = "defunctionalize"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module without functions as values.

        Raises
        ------
        CodesignError
            A local function has type parameters, main takes or gives functions, or a function type
            has a length that is not known.
        """
        if not any(map(_makes_function, post_order(*_bodies(module)))):
            return module
        reached = specialized(without_unreached(module))
        work = _Work(reached, infer_types(reached))
        work.check()
        return work.result()


_KNOWN: Final = (OpRef, GlobalVar, Constructor, Function)
"""What is called without being a value."""


def _bodies(module: Module) -> list[Expr]:
    return [each.body for each in module.functions.values()]


def _makes_function(node: Expr) -> bool:
    """Return whether a node has a function as an operand, is a local one, or calls any other."""
    if isinstance(node, Function):
        return not is_primitive(node)
    if isinstance(node, Call) and not isinstance(node.callee, _KNOWN):
        return True
    operands = node.args if isinstance(node, Call) else children(node)
    return any(isinstance(each, GlobalVar | Constructor) for each in operands)


@final
@dataclass(slots=True, eq=False)
class _Kind:
    """A type of functions: its data type, the function that calls them, and where they are made."""

    type: FuncType
    data: str
    caller: str
    constructors: list[ConstructorDefinition] = field(default_factory=list)
    clauses: list[Clause] = field(default_factory=list)
    params: tuple[Var, ...] = ()


@final
class _Work:
    def __init__(self, module: Module, types: Mapping[Expr, Type]) -> None:
        self._module = module
        self._types = types
        self._names = Names([*module.data_types, *module.constructors()])
        self._functions = Names(module.functions)
        self._kinds: dict[FuncType, _Kind] = {}
        self._itself: dict[Expr, Var] = {}
        self._vars: dict[Expr, Var] = {}
        self._new: dict[Expr, Expr] = {}
        self._made: dict[Expr, Expr] = {}

    def check(self) -> None:
        """Refuse what cannot be made first-order."""
        main = self._module.functions.get("main")
        for function in self._module.functions.values():
            for node in post_order(function):
                if isinstance(node, Function) and node.type_params:
                    raise _refusal("a function with type parameters", node.span)
        if main is not None:
            type_ = self._types[main]
            assert isinstance(type_, FuncType), "a function has a function's type"
            for each in parts(type_):
                if any(isinstance(inside, FuncType) for inside in _within(each)):
                    raise _refusal("main with functions outside", main.span)

    def result(self) -> Module:
        """Return the first-order module."""
        functions: dict[str, Function] = {}
        for name, function in self._module.functions.items():
            params = tuple(map(self._variable, function.params))
            type_ = self._types[function]
            assert isinstance(type_, FuncType), "a function has a function's type"
            body = self._rewritten(function.body)
            functions[name] = replace(
                function, params=params, body=body, result_type=self._first_order(type_.result)
            )
        data_types = {name: self._definition(d) for name, d in self._module.data_types.items()}
        for kind in self._kinds.values():
            functions[kind.caller] = self._caller(kind)
            data_types[kind.data] = TypeDefinition(kind.data, (), tuple(kind.constructors))
        return Module(functions, data_types)

    def _definition(self, definition: TypeDefinition) -> TypeDefinition:
        constructors = tuple(
            replace(each, fields=tuple(map(self._first_order, each.fields)))
            for each in definition.constructors
        )
        return replace(definition, constructors=constructors)

    # --- types ------------------------------------------------------------------------------------

    def _first_order(self, type_: Type, span: Span | None = None) -> Type:
        if isinstance(type_, FuncType):
            return TypeCall(self._kind(type_, span).data)
        return with_parts(type_, tuple(self._first_order(each, span) for each in parts(type_)))

    def _kind(self, type_: FuncType, span: Span | None = None) -> _Kind:
        if type_ not in self._kinds:
            leaves = type_leaves(type_)
            if any(isinstance(each, TensorType) and UNKNOWN in each.shape for each in leaves):
                raise _refusal(f"functions of type {type_text(type_)}", span)
            kind = _Kind(type_, self._names.fresh("Function1"), self._functions.fresh("call1"))
            self._kinds[type_] = kind
            kind.params = tuple(
                Var(f"x{index}", self._first_order(each)) for index, each in enumerate(type_.params)
            )
        return self._kinds[type_]

    def _variable(self, var: Var) -> Var:
        if var not in self._vars:
            type_ = self._first_order(self._types[var], var.span)
            self._vars[var] = replace(var, annotation=type_)
        return self._vars[var]

    # --- expressions ------------------------------------------------------------------------------

    def _rewritten(self, root: Expr) -> Expr:
        for node in post_order(root):
            if isinstance(node, Let) and isinstance(node.value, Function):
                self._itself[node.value] = node.var
        for node in post_order(root):
            if node not in self._new:
                self._new[node] = self._rule(node)
        return self._as_value(root)

    def _rule(self, node: Expr) -> Expr:
        match node:
            case Var():
                return self._variable(node)
            case Function() if not is_primitive(node):
                return self._closure(node)
            case Call(OpRef() | GlobalVar() | Constructor() as callee, args):
                return replace(node, callee=callee, args=tuple(map(self._as_value, args)))
            case Call(callee, args) if not isinstance(callee, Function) or not is_primitive(callee):
                type_ = self._types[callee]
                assert isinstance(type_, FuncType), "what is called is a function"
                kind = self._kind(type_, node.span)
                values = (self._as_value(callee), *map(self._as_value, args))
                return Call(GlobalVar(kind.caller, node.span), values, None, node.span)
            case _:
                return with_children(node, tuple(map(self._as_value, children(node))))

    def _as_value(self, node: Expr) -> Expr:
        """Return what stands for an operand: of a global function and a constructor its closure."""
        if not isinstance(node, GlobalVar | Constructor):
            return self._new[node]
        if node not in self._made:
            type_ = self._types[node]
            assert isinstance(type_, FuncType), "global functions and constructors are functions"
            if isinstance(node, Constructor) and type_.type_params:
                raise _refusal(
                    f"constructor {node.name} of a polymorphic type as a value", node.span
                )
            kind = self._kind(type_, node.span)
            body = Call(node, kind.params, None, node.span)
            self._made[node] = self._site(kind, (), body, node.span)
        return self._made[node]

    def _closure(self, function: Function) -> Expr:
        type_ = self._types[function]
        assert isinstance(type_, FuncType), "a function has a function's type"
        kind = self._kind(type_, function.span)
        itself = self._itself.get(function)
        captured = tuple(var for var in free_variables(function) if var is not itself)
        inside = {self._variable(old): new for old, new in self._renamed(captured).items()}
        mapping: dict[Var, Expr] = dict(inside)
        for param, new in zip(function.params, kind.params, strict=True):
            mapping[self._variable(param)] = new
        body = self._new[function.body]
        if isinstance(function.body, GlobalVar | Constructor):
            body = self._as_value(function.body)
        made = tuple(map(self._variable, captured))
        name = self._constructor(kind, captured)
        value = Call(Constructor(name, function.span), made, None, function.span)
        if itself is not None and itself in free_variables(function):
            again = replace(value, args=tuple(inside[each] for each in made))
            body = Let(self._variable(itself), again, body, function.span)
        fresh = fresh_copy(body, Names(), variables=mapping)
        pattern = PatternConstructor(name, tuple(PatternVar(inside[each]) for each in made))
        kind.clauses.append(Clause(pattern, fresh))
        return value

    def _renamed(self, captured: tuple[Var, ...]) -> dict[Var, Var]:
        return {var: replace(self._variable(var)) for var in captured}

    def _constructor(self, kind: _Kind, captured: tuple[Var, ...]) -> str:
        fields = tuple(self._first_order(self._types[var], var.span) for var in captured)
        name = self._names.fresh("Closure1")
        kind.constructors.append(ConstructorDefinition(name, fields))
        return name

    def _site(self, kind: _Kind, captured: tuple[Var, ...], body: Expr, span: Span | None) -> Expr:
        name = self._constructor(kind, captured)
        kind.clauses.append(Clause(PatternConstructor(name), fresh_copy(body, Names())))
        return Call(Constructor(name, span), (), None, span)

    def _caller(self, kind: _Kind) -> Function:
        """Return the function that calls those of a kind: one clause for each place of making."""
        function = Var("f", TypeCall(kind.data))
        if not kind.clauses:
            raise _refusal(f"functions of type {type_text(kind.type)}, of which none is made", None)
        body = Match(function, tuple(kind.clauses))
        return Function((function, *kind.params), body, self._first_order(kind.type.result))


def _within(type_: Type) -> list[Type]:
    found, pending = [], [type_]
    while pending:
        each = pending.pop()
        found.append(each)
        pending.extend(parts(each))
    return found


def _refusal(what: str, span: Span | None) -> CodesignError:
    return CodesignError(
        Problem(
            what=f"defunctionalize does not take {what}",
            span=span,
            help="partial-evaluate does away with functions that are known",
        )
    )
