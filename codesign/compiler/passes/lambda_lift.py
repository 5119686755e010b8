"""lambda-lift: make local functions global; what they use of their surroundings becomes parameters.

    def @main(%n: int32) { let %f = fn (%x: int32) { add(%x, %n) }; %f(%f(1)) }
becomes
    def @main_f(%n: int32, %x: int32) { add(%x, %n) }
    def @main(%n: int32) { @main_f(%n, @main_f(%n, 1)) }

That is done where a function is only called, also by itself. One that is a value and uses nothing
of its surroundings becomes a global function; any other one is made by a global function that takes
what it uses, marked `Closure=1`. A function whose variable has an annotation that knows other
lengths than its own type does is always a value:

    def @main_lambda(%n: int32, Closure=1) { fn (%x: int32) { add(%x, %n) } }

Laws: the answer is the same bit for bit, so are the types; a second run changes nothing. Primitive
functions stay.

Source: Johnsson, "Lambda Lifting" (1985); Relay's LambdaLift.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, final

from codesign.compiler.analysis.annotate import keeping_types
from codesign.compiler.analysis.boundaries import boundary_variables
from codesign.compiler.analysis.evaluation import is_primitive
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import Call, Expr, Function, GlobalVar, Let, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import Names, fresh_copy, type_parameter_names
from codesign.ir.relay.type_algebra import free_type_variables
from codesign.ir.relay.types import FuncType, Type
from codesign.ir.relay.types import TypeVar as TypeParameter
from codesign.ir.relay.visit import children, free_variables, post_order, with_children


@final
@dataclass(frozen=True, slots=True)
class LambdaLift:
    """Lift local functions to the module."""

    name: ClassVar[str] = "lambda-lift"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with its local functions lifted."""
        return keeping_types(module, _without_locals)


def _without_locals(module: Module) -> Module:
    if not any(map(_has_local, module.functions.values())):
        return module
    lifting = _Lifting(module)
    changed = {
        name: lifting.lifted(name, function) if _has_local(function) else function
        for name, function in module.functions.items()
    }
    return module.with_functions({**changed, **lifting.made})


def _has_local(function: Function) -> bool:
    return any(_is_lifted(node, function) for node in post_order(function.body))


def _is_lifted(node: Expr, around: Function) -> bool:
    """Return whether a node is a local function that may become a global one."""
    if not isinstance(node, Function) or is_primitive(node):
        return False
    return "Closure" not in around.attributes or _made_by(around) is not node


def _made_by(function: Function) -> Expr:
    """Return what a function marked `Closure` gives: a function, maybe one with a name."""
    body = function.body
    return body.value if isinstance(body, Let) and body.body is body.var else body


@final
@dataclass(frozen=True, slots=True)
class _Lifted:
    """What stands for a local function: a global one, given these variables before all others."""

    function: GlobalVar
    captured: tuple[Var, ...]


@final
class _Lifting:
    def __init__(self, module: Module) -> None:
        self.made: dict[str, Function] = {}
        self._types = infer_types(module)
        self._boundaries = boundary_variables(module)
        self._names = Names(module.functions)
        self._type_names = type_parameter_names(module)
        self._root = module.main if "main" in module.functions else Function((), Var("none"))
        self._stem = ""
        self._new: dict[Expr, Expr] = {}
        self._known: dict[Expr, _Lifted] = {}
        self._escaping: set[Expr] = set()
        self._named: dict[Expr, Var] = {}

    def lifted(self, name: str, function: Function) -> Function:
        """Return a global function without local ones."""
        self._root, self._stem = function, name
        self._escaping = _used_as_values(function)
        self._named = {}
        for node in post_order(function, below=self._below):
            if node not in self._new:
                self._new[node] = self._rule(node)
        result = self._new[function]
        assert isinstance(result, Function), "a function stays one"
        return result

    def _below(self, node: Expr) -> Iterator[Expr]:
        if isinstance(node, Let) and _is_lifted(node.value, self._root):
            assert isinstance(node.value, Function), "only functions are lifted"
            self._named[node.value] = node.var
            is_called = node.var not in self._escaping or not self._captured(node.value)
            if is_called and node.var not in self._boundaries:
                self._known[node.var] = self._promise(node.value, node.var.name)
        yield from children(node)

    def _captured(self, function: Function) -> tuple[Var, ...]:
        """Return the variables that a function uses, through the lifted ones that it calls too."""
        found: dict[Var, None] = {}
        for var in free_variables(function):
            if var is self._named.get(function):
                continue
            through = self._known.get(var)
            found.update(dict.fromkeys((var,) if through is None else through.captured))
        return tuple(found)

    def _promise(self, function: Function, stem: str) -> _Lifted:
        name = self._names.fresh(f"{self._stem}_{stem}")
        return _Lifted(GlobalVar(name, function.span), self._captured(function))

    def _rule(self, node: Expr) -> Expr:
        match node:
            case Var() if node in self._known and not self._known[node].captured:
                return self._known[node].function
            case Call(Var() as callee, args) if callee in self._known:
                lifted = self._known[callee]
                new = tuple(self._new[each] for each in args)
                return replace(node, callee=lifted.function, args=(*lifted.captured, *new))
            case Let(var, value, body) if var in self._known:
                self._define(self._known[var], value)
                return self._new[body]
            case Function() if node is not self._root and _is_lifted(node, self._root):
                return self._value(node)
            case _:
                return self._rebuilt(node)

    def _rebuilt(self, node: Expr) -> Expr:
        return with_children(node, tuple(self._new[each] for each in children(node)))

    def _define(self, lifted: _Lifted, function: Expr) -> None:
        """Make the global function that takes what the local one captured, then its parameters."""
        assert isinstance(function, Function), "only functions are lifted"
        new = self._rebuilt(function)
        type_ = self._types[function]
        assert isinstance(new, Function), "a function stays one"
        assert isinstance(type_, FuncType), "a function has a function's type"
        params = tuple(
            Var(each.name, self._types[each], each.span)
            for each in (*lifted.captured, *function.params)
        )
        old = (*lifted.captured, *function.params)
        free = self._free_types(tuple(self._types[each] for each in old), type_.result, new)
        own = tuple(each for each in free if each not in type_.type_params)
        made = Function(old, new.body, type_.result, new.attributes, own + type_.type_params)
        self._install(lifted.function.name, made, dict(zip(old, params, strict=True)))

    def _install(self, name: str, made: Function, params: Mapping[Var, Var]) -> None:
        """Keep a copy of a function whose parameters are others with annotations."""
        copy = fresh_copy(made.body, self._type_names, variables=params)
        self.made[name] = replace(made, params=tuple(params.values()), body=copy)

    def _free_types(
        self, params: tuple[Type, ...], result: Type, function: Expr
    ) -> tuple[TypeParameter, ...]:
        """Return the type parameters of a signature, then those that only annotations name."""
        found: dict[TypeParameter, None] = {}
        for each in (*params, result, *_annotations(function)):
            ordered = sorted(free_type_variables(each), key=lambda var: var.name)
            found.update(dict.fromkeys(ordered))
        for node in post_order(function):
            for bound in node.type_params if isinstance(node, Function) else ():
                found.pop(bound, None)
        return tuple(found)

    def _value(self, function: Function) -> Expr:
        """Return what makes a local function that is a value."""
        var = self._named.get(function)
        if var in self._known:
            return self._known[var].function
        lifted = self._promise(function, "lambda" if var is None else var.name)
        calls_itself = var is not None and var in free_variables(function)
        if not lifted.captured and not calls_itself:
            self._define(lifted, function)
            return lifted.function
        inner = self._rebuilt(function)
        body = inner if var is None else Let(var, inner, var, var.span)
        types = tuple(self._types[each] for each in lifted.captured)
        params = tuple(Var(v.name, t, v.span) for v, t in zip(lifted.captured, types, strict=True))
        result = self._types[function]
        free = self._free_types(types, result, inner)
        made = Function(lifted.captured, body, result, {"Closure": 1}, free, function.span)
        self._install(lifted.function.name, made, dict(zip(lifted.captured, params, strict=True)))
        return Call(lifted.function, lifted.captured, None, function.span)


def _annotations(function: Expr) -> Iterator[Type]:
    for node in post_order(function):
        match node:
            case Var(annotation=annotation) if annotation is not None:
                yield annotation
            case Function(result_type=result) if result is not None:
                yield result
            case _:
                pass


def _used_as_values(root: Function) -> set[Expr]:
    """Return the variables that are used other than by calling them."""
    found: set[Expr] = set()
    for node in post_order(root):
        match node:
            case Call(_, args):
                found.update(each for each in args if isinstance(each, Var))
            case Let(_, value, body):
                found.update(each for each in (value, body) if isinstance(each, Var))
            case _:
                found.update(each for each in children(node) if isinstance(each, Var))
    return found
