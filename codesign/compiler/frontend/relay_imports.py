"""What a module takes from another one: the definitions that it uses, and those that they use."""

from __future__ import annotations

from collections.abc import Iterator

from codesign.ir.relay.expr import (
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    Var,
)
from codesign.ir.relay.module import Module, TypeDefinition
from codesign.ir.relay.type_algebra import parts
from codesign.ir.relay.types import Type, TypeCall
from codesign.ir.relay.visit import post_order


def with_imports(module: Module, source: Module) -> Module:
    """Return the module with every definition of `source` that it needs and does not have."""
    functions, data_types = dict(module.functions), dict(module.data_types)
    owners = {name: owner.name for name, (owner, _) in source.constructors().items()}
    waiting: list[Function | TypeDefinition] = [*functions.values(), *data_types.values()]
    while waiting:
        for name in _names(waiting.pop()):
            function, data_type = source.functions.get(name), owners.get(name, name)
            if function is not None and name not in functions:
                functions[name] = function
                waiting.append(function)
            if data_type in source.data_types and data_type not in data_types:
                data_types[data_type] = source.data_types[data_type]
                waiting.append(data_types[data_type])
    grown = len(functions) > len(module.functions) or len(data_types) > len(module.data_types)
    return Module(functions, data_types) if grown else module


def _names(definition: Function | TypeDefinition) -> Iterator[str]:
    """Yield the names of functions, constructors and data types that a definition mentions."""
    if isinstance(definition, TypeDefinition):
        for constructor in definition.constructors:
            for each in constructor.fields:
                yield from _type_names(each)
        return
    for node in post_order(definition):
        yield from _node_names(node)


def _node_names(node: Expr) -> Iterator[str]:
    match node:
        case GlobalVar(name) | Constructor(name):
            yield name
        case Match(_, clauses):
            for clause in clauses:
                yield from _pattern_names(clause.pattern)
        case Function(result_type=type_) | Var(annotation=type_) if type_ is not None:
            yield from _type_names(type_)
        case _:
            pass


def _pattern_names(pattern: Pattern) -> Iterator[str]:
    if isinstance(pattern, PatternConstructor):
        yield pattern.name
    if isinstance(pattern, PatternConstructor | PatternTuple):
        for each in pattern.fields:
            yield from _pattern_names(each)


def _type_names(type_: Type) -> Iterator[str]:
    if isinstance(type_, TypeCall):
        yield type_.name
    for each in parts(type_):
        yield from _type_names(each)
