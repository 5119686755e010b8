"""Kinds: whether a type names what there is, with as many arguments as that takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from codesign.diagnostics import Diagnostic, Problem, Span
from codesign.ir.relay.expr import Expr, Function, Var
from codesign.ir.relay.module import Module, TypeDefinition
from codesign.ir.relay.type_algebra import has_holes, parts
from codesign.ir.relay.types import FuncType, Type, TypeCall, TypeVar


def kind_mistakes(
    type_: Type,
    data_types: Mapping[str, TypeDefinition],
    visible: Collection[TypeVar],
    span: Span | None,
) -> Iterator[Diagnostic]:
    """Yield what is wrong with a type; `visible` are the type parameters in scope."""
    match type_:
        case TypeVar(name) if type_ not in visible:
            yield Problem(what=f"no type parameter {name} is in scope", span=span)
        case TypeCall(name) if name not in data_types:
            yield Problem(what=f"no type is named {name}", span=span)
        case TypeCall(name, args) if len(args) != len(data_types[name].type_params):
            wanted = len(data_types[name].type_params)
            yield Problem(
                what=f"{name} takes another number of types",
                found=f"found {len(args)}, expected {wanted}",
                span=span,
            )
        case FuncType(type_params=[_, *_] as own):
            visible = {*visible, *own}
        case _:
            pass
    for each in parts(type_):
        yield from kind_mistakes(each, data_types, visible, span)


def annotation_mistakes(
    nodes: Sequence[Expr], data_types: Mapping[str, TypeDefinition]
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the types that are written at the nodes of one global function."""
    visible = {each for node in nodes if isinstance(node, Function) for each in node.type_params}
    for node in nodes:
        match node:
            case Var(annotation=type_) | Function(result_type=type_) if type_ is not None:
                yield from kind_mistakes(type_, data_types, visible, node.span)
            case _:
                pass


def data_type_mistakes(module: Module) -> Iterator[Diagnostic]:
    """Yield what is wrong with the data types of a module themselves."""
    owners: dict[str, str] = {}
    for definition in module.data_types.values():
        if len(set(definition.type_params)) != len(definition.type_params):
            what = f"{definition.name} has two type parameters of one name"
            yield Problem(what=what, span=definition.span)
        for constructor in definition.constructors:
            span = constructor.span or definition.span
            if constructor.name in owners:
                yield Problem(
                    what=f"two constructors are named {constructor.name}",
                    found=f"one of {owners[constructor.name]}, one of {definition.name}",
                    span=span,
                )
            owners.setdefault(constructor.name, definition.name)
            for each in constructor.fields:
                yield from kind_mistakes(each, module.data_types, definition.type_params, span)
                if has_holes(each):
                    what = f"a field of {constructor.name} has no type"
                    yield Problem(what=what, found="found _", span=span)
