"""Where static knowledge of lengths ends: a value stands where another number of lengths is known.

    let %x: Tensor[(3,), float32] = %y        %y is a Tensor[(?,), float32]

What uses %x relies on 3, and whether it is 3 is found out when the program runs; the other way
round %x is a Tensor[(?,), …] for all that uses it, whatever %y is. Annotated variables say so in
the program. Declared results, ways out of a branch, fields of constructors, patterns and contents
of cells say it too, but go when the function, the branch, the value or the cell goes:
`with_boundaries` writes them as annotated lets, which every pass keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.ir.relay.expr import (
    Call,
    Clause,
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
    RefNew,
    RefWrite,
    Var,
    Wildcard,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import (
    lengths_of,
    map_lengths,
    parts,
    substitute_type,
    type_leaves,
)
from codesign.ir.relay.types import (
    UNKNOWN,
    Dim,
    FuncType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
)
from codesign.ir.relay.visit import post_order, rewrite_pairs, use_counts


def is_boundary(declared: Type | None, found: Type | None) -> bool:
    """Return whether other lengths are known of a place than of the value that stands there."""
    return _some_length(declared, found, lambda here, there: here != there)


def knows_more(declared: Type | None, found: Type | None) -> bool:
    """Return whether a length of a place is known that the type of the value leaves open."""
    return _some_length(declared, found, lambda here, there: here != there and here is not UNKNOWN)


def without_names(type_: Type) -> Type:
    """Return a type with `?` for lengths with names, which mean nothing in another function."""
    return map_lengths(type_, lambda _: UNKNOWN)


def compares_lengths(function: Function) -> bool:
    """Return whether a call finds out that two lengths of its arguments are equal: one name."""
    annotations = [each.annotation for each in function.params if each.annotation is not None]
    names = [name for each in annotations for name in lengths_of(each)]
    return len(names) > len(set(names))


def is_gradual(module: Module) -> bool:
    """Return whether a length may be known at run time only: something in the text says so."""
    definitions = module.data_types.values()
    fields = [each for data in definitions for made in data.constructors for each in made.fields]
    nodes = post_order(*module.functions.values())
    return any(map(_has_unknown, fields)) or any(map(_makes_unknown, nodes))


def _makes_unknown(node: Expr) -> bool:
    match node:
        case OpRef(name):
            return name.startswith("dyn.")
        case Var(annotation=type_) | Function(result_type=type_) if type_ is not None:
            return _has_unknown(type_)
        case _:
            return False


def _has_unknown(type_: Type) -> bool:
    return any(
        isinstance(leaf, TensorType) and UNKNOWN in leaf.shape for leaf in type_leaves(type_)
    )


def boundary_variables(module: Module) -> set[Var]:
    """Return the variables of lets that are boundaries."""
    if not is_gradual(module):
        return set()
    types = infer_types(module)
    return {
        node.var
        for node in post_order(*module.functions.values())
        if isinstance(node, Let) and is_boundary(node.var.annotation, types[node.value])
    }


def _some_length(
    declared: Type | None, found: Type | None, differ: Callable[[Dim, Dim], bool]
) -> bool:
    match declared, found:
        case (None, _) | (_, None):
            return False
        case TensorType(here), TensorType(there):
            return any(map(differ, here, there))
        case _ if type(declared) is not type(found):
            return False
        case _:
            below = parts(declared), parts(found)
            return any(_some_length(a, b, differ) for a, b in zip(*below, strict=False))


def with_boundaries(module: Module) -> Module:
    """Return the module with an annotated `let` at every boundary; itself where it has all.

    Parameters of functions keep their annotations, which say as much. A call that is the last thing
    a function does stays so where all that its result promises is known of the call.
    """
    if not is_gradual(module):
        return module
    types = infer_types(module)
    functions = {
        name: _Writer(module, types, each).function() for name, each in module.functions.items()
    }
    same = all(functions[name] is old for name, old in module.functions.items())
    return module if same else module.with_functions(functions)


@final
class _Writer:
    """Writes the boundaries of one global function."""

    def __init__(self, module: Module, types: Mapping[Expr, Type], function: Function) -> None:
        self._types = types
        self._constructors = module.constructors()
        self._function = function
        self._ends = _ends(function, types)

    def function(self) -> Function:
        made = rewrite_pairs(self._function, self._rule)
        assert isinstance(made, Function), "a function stays one"
        return made

    def _rule(self, original: Expr, rebuilt: Expr) -> Expr:
        match original, rebuilt:
            case Function(body=body), Function(body=new):
                return _changed(rebuilt, "body", new, self._end(original, body, new))
            case Let(body=body), Let(body=new):
                return _changed(rebuilt, "body", new, self._end(original, body, new))
            case If(_, then, otherwise), If(_, new, other):
                made = _changed(rebuilt, "then", new, self._end(original, then, new))
                return _changed(made, "otherwise", other, self._end(original, otherwise, other))
            case Match(), Match():
                return self._match(original, rebuilt)
            case Call(Constructor() as constructor, args), Call(args=new_args):
                wanted = self._fields(constructor.name, self._types[original])
                made_args = tuple(map(self._as, wanted, args, new_args))
                same = all(map(_is, made_args, new_args))
                return rebuilt if same else replace(rebuilt, args=made_args)
            case RefNew(value), RefNew(new):
                content = _content(self._types[original])
                return _changed(rebuilt, "value", new, self._as(content, value, new))
            case RefWrite(reference, value), RefWrite(_, new):
                content = _content(self._types[reference])
                return _changed(rebuilt, "value", new, self._as(content, value, new))
            case _:
                return rebuilt

    def _as(self, wanted: Type, value: Expr, rebuilt: Expr) -> Expr:
        """Return a value as one of the wanted type."""
        if not is_boundary(wanted, self._types.get(value)):
            return rebuilt
        var = Var(value.name if isinstance(value, Var) else "as", wanted, value.span)
        return Let(var, rebuilt, var, value.span)

    def _end(self, owner: Expr, way: Expr, rebuilt: Expr) -> Expr:
        """Return a way out of a node, of the type that is wanted at its end."""
        wanted = self._ends[owner]
        if way in self._ends and self._ends[way] is wanted and not isinstance(way, Function):
            return rebuilt  # its own ways have been given the type
        is_call = isinstance(way, Call) and not isinstance(way.callee, OpRef | Constructor)
        if is_call and not knows_more(wanted, self._types[way]):
            return rebuilt
        return self._as(wanted, way, rebuilt)

    # --- matches ----------------------------------------------------------------------------------

    def _match(self, original: Match, rebuilt: Match) -> Expr:
        clauses = []
        for old, new in zip(original.clauses, rebuilt.clauses, strict=True):
            bound: list[tuple[Var, Var]] = []
            pattern = self._pattern(new.pattern, self._types[original.value], bound)
            body = self._end(original, old.body, new.body)
            for var, field in reversed(bound):
                body = Let(var, field, body, var.span)
            same = body is new.body
            clauses.append(new if same else Clause(pattern, body))
        same = all(map(_is, clauses, rebuilt.clauses))
        return rebuilt if same else replace(rebuilt, clauses=tuple(clauses))

    def _pattern(self, pattern: Pattern, type_: Type, bound: list[tuple[Var, Var]]) -> Pattern:
        """Return a pattern for values of a type; note variables that are bound to other ones."""
        match pattern:
            case PatternVar(var) if is_boundary(var.annotation, type_):
                field = Var(var.name, None, var.span)
                bound.append((var, field))
                return PatternVar(field)
            case PatternTuple(patterns) if isinstance(type_, TupleType):
                fields = type_.fields
            case PatternConstructor(name, patterns):
                fields = self._fields(name, type_)
            case PatternVar() | PatternTuple() | Wildcard():
                return pattern
        new = tuple(self._pattern(p, t, bound) for p, t in zip(patterns, fields, strict=True))
        return replace(pattern, fields=new)

    def _fields(self, constructor: str, made: Type) -> tuple[Type, ...]:
        """Return the types of the fields of a constructor that makes values of a type."""
        definition, chosen = self._constructors[constructor]
        assert isinstance(made, TypeCall), "constructors make values of data types"
        values = dict(zip(definition.type_params, made.args, strict=True))
        return tuple(substitute_type(each, values) for each in chosen.fields)


def _ends(function: Function, types: Mapping[Expr, Type]) -> dict[Expr, Type]:
    """Return what functions, branches and lets are to give, where that is said at their ends.

    A branch whose value is the result of a function only gives what the function is to give.
    """
    counts = use_counts(function)
    found: dict[Expr, Type] = {}
    for node in reversed([*post_order(function)]):
        ways: tuple[Expr, ...] = ()
        match node:
            case Function(body=body):
                signature = types[node]
                assert isinstance(signature, FuncType), "a function has a function's type"
                found[node], ways = signature.result, (body,)
            case Let(body=body):
                ways = (body,)
            case If(_, then, otherwise):
                ways = (then, otherwise)
            case Match(clauses=clauses):
                ways = tuple(each.body for each in clauses)
            case _:
                continue
        wanted = found.setdefault(node, types[node])
        for way in ways:
            if counts[way] == 1 and isinstance(way, Let | If | Match):
                found[way] = wanted
    return found


def _content(type_: Type) -> Type:
    assert isinstance(type_, RefType), "a cell has a cell's type"
    return type_.value


def _changed(node: Expr, name: str, old: Expr, new: Expr) -> Expr:
    return node if old is new else replace(node, **{name: new})  # type: ignore[arg-type]


def _is(left: object, right: object) -> bool:
    return left is right
