"""One inference: the types so far, with holes, what waits for more, and the mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, assert_never, final

from codesign.compiler.analysis.exhaustive import check_matches
from codesign.compiler.analysis.pattern_types import pattern_flows
from codesign.compiler.analysis.type_constraints import (
    Constraint,
    Field,
    Flow,
    Instance,
    Relation,
)
from codesign.compiler.analysis.type_mistakes import (
    argument_mistake,
    branches_mistake,
    clauses_mistake,
    place_of,
    problem,
    projected,
    refuse_operators,
)
from codesign.compiler.analysis.undetermined import Undetermined
from codesign.compiler.analysis.unify import Unifier
from codesign.compiler.analysis.unneeded import settle_unneeded
from codesign.diagnostics import CodesignError, Diagnostic, Span
from codesign.dtypes import DType
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
    pattern_variables,
)
from codesign.ir.relay.kinds import annotation_mistakes
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import lengths_of, map_lengths
from codesign.ir.relay.types import (
    UNKNOWN,
    FuncType,
    Hole,
    Length,
    RefType,
    TensorType,
    TupleType,
    Type,
    type_text,
)
from codesign.ir.relay.visit import children, post_order
from codesign.ops.gradual import result_type
from codesign.ops.table import operator

_CONDITION: Final = TensorType((), DType.BOOL)


@final
class Inference:
    """The types so far, with holes, and the mistakes; what depends on a mistake fits everything."""

    def __init__(self, module: Module) -> None:
        self.types: dict[Expr, Type] = {}
        self.mistakes: list[Diagnostic] = []
        self._module = module
        self._constructors = module.constructors()
        self._lengths = {name: _own_lengths(each) for name, each in module.functions.items()}
        self._unifier = Unifier[Constraint]()
        self._constraints: list[Constraint] = []
        self._signatures: dict[Function, FuncType] = {}
        self._values: dict[Var, Expr] = {}
        self._roots: list[Expr] = []
        for lengths in self._lengths.values():
            self._unifier.declare_lengths(lengths)

    def infer(self, root: Expr) -> None:
        """Visit every node once, children first; what a binder binds has a type before its uses."""
        self._roots.append(root)
        self._declare(root)
        for node in post_order(root, below=self._below):
            if node not in self.types and not isinstance(node, OpRef):
                self.types[node] = self._visit(node)
            if self._unifier.queue:
                self._work_off()

    def finish(self) -> dict[Expr, Type]:
        """Solve what is left; return the types, or raise every mistake."""
        self._work_off()
        for each in self._constraints:
            if isinstance(each, Instance) and not each.is_done:
                self._collect(each.assume_monomorphic)
                self._work_off()
        signatures = [self._signatures[each] for each in self._globals()]
        settle_unneeded(self._unifier, self.types.values(), signatures, self._constraints)
        self._work_off()
        roots = tuple(self._roots)
        undetermined = Undetermined(self._module, self._unifier, self.types, self._constraints)
        self.mistakes.extend(undetermined.mistakes(roots))
        types = {node: self._unifier.resolve(type_) for node, type_ in self.types.items()}
        if not self.mistakes:
            self.mistakes.extend(check_matches(roots, types, self._module))
        if self.mistakes:
            raise CodesignError(*self.mistakes)
        return types

    def _globals(self) -> list[Function]:
        return [each for each in self._roots if isinstance(each, Function)]

    # --- the work list ----------------------------------------------------------------------------

    def _add(self, constraint: Constraint) -> None:
        self._constraints.append(constraint)
        for each in constraint.waits_for():
            self._unifier.watch(each, constraint)
        self._collect(constraint.attempt)

    def _work_off(self) -> None:
        queue = self._unifier.queue
        while queue:
            self._collect(queue.popleft().attempt)

    def _collect(self, attempt: Callable[[Unifier[Constraint]], None]) -> None:
        try:
            attempt(self._unifier)
        except CodesignError as error:
            self.mistakes.extend(error.diagnostics)

    # --- binders ----------------------------------------------------------------------------------

    def _declare(self, root: Expr) -> None:
        """Note what variables are bound to; give parameters and recursive functions a type."""
        nodes = list(post_order(root))
        self.mistakes.extend(annotation_mistakes(nodes, self._module.data_types))
        for node in nodes:
            match node:
                case Let(var, value):
                    self._values[var] = value
                case Function(params):
                    for param in params:
                        self.types.setdefault(param, param.annotation or Hole())
                case _:
                    pass

    def _below(self, node: Expr) -> Iterator[Expr]:
        """Yield the children; a match binds its patterns between its value and the first body."""
        if not isinstance(node, Match):
            yield from children(node)
            return
        value, *rest = children(node)
        yield value
        for clause in node.clauses:
            for var in pattern_variables(clause.pattern):
                self.types.setdefault(var, var.annotation or Hole())
            try:
                for each in pattern_flows(
                    clause.pattern, self.types[value], node.span, self.types, self._built
                ):
                    self._flow(*each)
            except CodesignError as error:
                self.mistakes.extend(error.diagnostics)
                for var in pattern_variables(clause.pattern):
                    self._unifier.poison(self.types[var])
        yield from rest

    # --- expressions ------------------------------------------------------------------------------

    def _visit(self, node: Expr) -> Type:
        try:
            refuse_operators(node)
            return self._type_of(node)
        except CodesignError as error:
            self.mistakes.extend(error.diagnostics)
            return self._unifier.poisoned()

    def _type_of(self, node: Expr) -> Type:
        match node:
            case Var():
                return self._variable(node)
            case GlobalVar(name, span):
                return self._global(name, span)
            case Constant(value):
                return TensorType(value.shape, DType.of(value.dtype))
            case OpRef():
                raise AssertionError("operators have no type and are not visited")
            case Call():
                return self._call(node)
            case Function():
                return self._function(node)
            case Constructor(name, span):
                return self._constructor(name, span)
            case Let(body=body):
                return self.types[body]
            case Tuple(fields):
                return TupleType(tuple(map(self._use, fields)))
            case Project(value):
                return self._field(node, self.types[value])
            case If():
                return self._if(node)
            case Match(_, clauses):
                return self._joined(node, tuple(clause.body for clause in clauses))
            case RefNew(value):
                content = Hole()
                self._flow(self._use(value), content, node.span, "")
                return RefType(content)
            case RefRead(reference):
                return self._content(reference, node.span)
            case RefWrite(reference, value):
                cell = self._content(reference, node.span)
                self._flow(self._use(value), cell, node.span, "the cell holds another type")
                return TupleType(())
            case _:
                assert_never(node)

    def _field(self, node: Project, value: Type) -> Type:
        if isinstance(value, TupleType):
            return projected(node, value)
        result = Hole()
        self._add(Field(node, value, result))
        return result

    def _fits(self, found: Type, expected: Type) -> bool:
        """Let a type flow into another, also when more is known about it later."""
        fits = self._unifier.flow(found, expected)
        if not fits:
            self._unifier.poison(found)
            self._unifier.poison(expected)
        elif not self._unifier.is_closed(found):
            self._unifier.watch(found, Flow(found, expected))
        return fits

    def _flow(self, found: Type, expected: Type, span: Span | None, what: str) -> None:
        before = type_text(self._unifier.resolve(expected))
        if self._fits(found, expected):
            return
        note = ("a type would contain itself",) if self._unifier.is_circular else ()
        shown = f"found {type_text(self._unifier.resolve(found))}, expected {before}"
        raise problem(what, span, shown, notes=note)

    def _use(self, node: Expr) -> Type:
        """Return the type of a value; of a polymorphic function that is not known yet a hole."""
        type_ = self.types[node]
        if not isinstance(type_, FuncType) or not type_.type_params:
            return type_
        if self._unifier.is_complete(type_):
            return type_
        result = Hole()
        self._add(Instance(type_, result, node.span))
        return result

    def _variable(self, var: Var) -> Type:
        value = self._values.get(var)
        if value is None:
            if var.annotation is None:
                raise problem(f"%{var.name} is not defined here", var.span)
            return var.annotation
        found = self.types.get(value)
        if found is None and isinstance(value, Function):
            found = self._signature(value)
        if found is None:
            raise problem(f"%{var.name} is used before it has a type", var.span)
        if var.annotation is None:
            return found
        before = type_text(var.annotation)
        if not self._fits(found, var.annotation):
            shown = f"found {type_text(self._unifier.resolve(found))}, annotated {before}"
            what = f"%{var.name} is bound to a value of another type"
            raise problem(what, var.span, shown)
        return var.annotation

    def _global(self, name: str, span: Span | None) -> Type:
        function = self._module.functions.get(name)
        if function is None:
            raise problem(f"no function is named @{name}", span)
        signature = self._signature(function)
        own = self._lengths[name]
        return map_lengths(signature, lambda _: UNKNOWN) if own else signature

    def _built(self, name: str, span: Span | None) -> FuncType:
        return self._unifier.instance(self._constructor(name, span))

    def _constructor(self, name: str, span: Span | None) -> FuncType:
        known = self._constructors.get(name)
        if known is None:
            raise problem(f"no constructor is named {name}", span)
        definition, constructor = known
        return definition.constructor_type(constructor)

    def _signature(self, function: Function) -> FuncType:
        """Return the type of a function whose body may not have been seen yet."""
        if function not in self._signatures:
            params = tuple(
                self.types.setdefault(param, param.annotation or Hole())
                for param in function.params
            )
            result = function.result_type or Hole()
            self._signatures[function] = FuncType(params, result, function.type_params)
        return self._signatures[function]

    def _function(self, function: Function) -> Type:
        signature = self._signature(function)
        body = self._use(function.body)
        before = type_text(self._unifier.resolve(signature.result))
        if not self._fits(body, signature.result):
            found = type_text(self._unifier.resolve(body))
            word = "used as" if function.result_type is None else "annotated"
            what = "the body has another type than the function's result"
            place = place_of(function.body) or function.span
            raise problem(what, place, f"found {found}, {word} {before}")
        return signature

    def _call(self, call: Call) -> Type:
        if isinstance(call.callee, OpRef):
            record = operator(call.callee.name, call.callee.span or call.span)
            args = tuple(self.types[each] for each in call.args)
            if all(map(self._unifier.is_closed, args)):
                return result_type(record, call, args)
            result = Hole()
            self._add(Relation(record, call, args, result))
            return result
        return self._function_call(call)

    def _function_call(self, call: Call) -> Type:
        callee = self._unifier.head(self._callee(call.callee))
        given = tuple(self._use(each) for each in call.args)
        if isinstance(callee, Hole):
            result = Hole()
            self._flow(callee, FuncType(given, result), call.span, "what is called is no function")
            return result
        if not isinstance(callee, FuncType):
            found = f"found {type_text(self._unifier.resolve(callee))}"
            raise problem("what is called is no function", call.span, found)
        function = self._unifier.instance(callee)
        if len(given) != len(function.params):
            raise argument_mistake(call, given, function, None, self._unifier)
        for index, (found_type, wanted) in enumerate(zip(given, function.params, strict=True)):
            if not self._fits(found_type, wanted):
                raise argument_mistake(call, given, function, index, self._unifier)
        return function.result

    def _callee(self, callee: Expr) -> Type:
        """Return the type of what is called; a global function's lengths are chosen anew."""
        own = self._lengths.get(callee.name) if isinstance(callee, GlobalVar) else None
        if not own or not isinstance(callee, GlobalVar):
            return self._use(callee)
        signature = self._signature(self._module.functions[callee.name])
        return self._unifier.with_new_lengths(signature, own)

    def _if(self, node: If) -> Type:
        condition = self.types[node.condition]
        place = place_of(node.condition) or node.span
        if not self._fits(condition, _CONDITION):
            shown = type_text(self._unifier.resolve(condition))
            raise problem("a condition is a scalar of bool", place, f"found {shown}")
        return self._joined(node, (node.then, node.otherwise))

    def _joined(self, node: If | Match, ways: tuple[Expr, ...]) -> Type:
        """Return the one type of all ways out of a branch."""
        result: Type = Hole()
        for index, way in enumerate(ways):
            if not self._fits(self._use(way), result):
                found = self._unifier.resolve(self.types[way])
                known = self._unifier.resolve(result)
                if isinstance(node, If):
                    raise branches_mistake(node, known, found)
                raise clauses_mistake(node, index, known, found)
        return result

    def _content(self, reference: Expr, span: Span | None) -> Type:
        content = Hole()
        what = "a cell is expected here"
        self._flow(self.types[reference], RefType(content), span, what)
        return content


def _own_lengths(function: Function) -> frozenset[Length]:
    """Return the names of lengths that a global function's parameters mention."""
    types = [param.annotation for param in function.params if param.annotation is not None]
    return frozenset(name for each in types for name in lengths_of(each))
