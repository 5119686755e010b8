"""Random well-typed programs: equal seeds and sizes give equal programs, and every one ends.

>>> program = random_program(seed=5, size=20)
>>> program.module.main.params[0].name
'a0'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Final, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.diagnostics import CodesignError, InternalError
from codesign.dtypes import DType
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.expr import Expr, Function, GlobalVar, Var
from codesign.ir.relay.module import ConstructorDefinition, Module, TypeDefinition
from codesign.ir.relay.type_algebra import free_type_variables, parts, with_parts
from codesign.ir.relay.types import UNKNOWN, TensorType, TupleType, Type, TypeCall, TypeVar
from codesign.ir.relay.visit import post_order, rewrite
from experiments.laws.draw import Draw
from experiments.laws.productions import PRODUCTIONS
from experiments.laws.spine import Spine
from experiments.laws.writer import Scope, Writer
from host_runtime.values import Value

_LIBRARY: Final = (
    *("id", "compose", "flip", "map", "foldl", "foldr", "filter", "zip", "rev", "concat"),
    *("length", "sum", "map_accumr", "map_accuml", "tmap", "size"),
)
"""Functions of the prelude that end and are total."""


@final
@dataclass(frozen=True, slots=True)
class Program:
    """A module, and arguments that its main takes."""

    seed: int
    size: int
    module: Module
    args: tuple[Value, ...]


def random_program(seed: int, size: int = 40) -> Program:
    """Return the program of a seed, with about `size` nodes."""
    draw = Draw(seed)
    strips, opens = draw.chance(0.6), draw.chance(0.25)
    for annotates in (False, True):
        found = _write(seed, size, annotates=annotates)
        candidates = [_with_fewer_annotations(found.module, draw)] if strips else []
        if opens:
            known = candidates[-1] if candidates else found.module
            candidates.insert(0, _with_unknown_lengths(known, draw))
        for module in (*candidates, found.module):
            try:
                infer_types(module)
            except CodesignError:
                continue
            return replace(found, module=module)
    raise InternalError(f"the program of seed {seed} and size {size} is not well-typed")


def _write(seed: int, size: int, *, annotates: bool) -> Program:
    draw = Draw(seed)
    library = _library()
    writer = Writer(
        draw,
        PRODUCTIONS,
        {**library.data_types, **_data_types(draw)},
        MappingProxyType({name: library.functions[name] for name in _LIBRARY}),
        annotates,
    )
    spine = Spine(writer, Scope())
    params = tuple(spine.plain_type() for _ in range(draw.between(1, 4)))
    variables = tuple(Var(f"a{index}", each) for index, each in enumerate(params))
    spine.scope = Scope(tuple(zip(variables, params, strict=True)))
    for part in draw.parts(size, max(3, size // 5)):
        spine.state(part)
    body, result = spine.close()
    main = Function(variables, body, result)
    module = _closed(Module({"main": main, **writer.functions}, writer.data_types), library)
    args = tuple(argument(writer, each) for each in params)
    return Program(seed, size, module, args)


@cache
def _library() -> Module:
    return prelude()


def _data_types(draw: Draw) -> dict[str, TypeDefinition]:
    """Return one or two data types of the program's own."""
    found = {}
    for index in range(draw.between(1, 2)):
        name, own = f"Data{index}", TypeVar(f"D{index}")
        itself = TypeCall(name, (own,))
        choices: tuple[Type, ...] = (
            own,
            itself,
            TensorType((), DType.INT32),
            TensorType((2,), DType.FLOAT32),
            TypeCall("List", (own,)),
            TupleType((own, TensorType((), DType.BOOL))),
        )
        constructors = [ConstructorDefinition(f"End{index}")]
        for each in range(draw.between(1, 3)):
            fields = tuple(draw.one_of(choices) for _ in range(draw.between(1, 3)))
            constructors.append(ConstructorDefinition(f"Make{index}{'ABC'[each]}", fields))
        found[name] = TypeDefinition(name, (own,), tuple(constructors))
    return found


def argument(writer: Writer, type_: Type) -> Value:
    """Return a random value of a type without functions, as the interpreter takes it."""
    match type_:
        case TensorType():
            return writer.draw.array(type_)
        case TupleType(fields):
            return tuple(argument(writer, each) for each in fields)
        case TypeCall(name):
            constructors = writer.data_types[name].constructors
            chosen = (
                writer.draw.one_of(constructors)
                if writer.draw.chance(0.55)
                else min(constructors, key=lambda each: len(each.fields))
            )
            fields = writer.fields_of(type_, chosen)
            return DataValue(chosen.name, tuple(argument(writer, each) for each in fields))
        case _:
            raise AssertionError(f"no argument has the type {type_}")


def _closed(module: Module, library: Module) -> Module:
    """Return the module with what it uses of the library, and only the data types it uses."""
    functions = dict(module.functions)
    pending = list(functions.values())
    while pending:
        for node in post_order(pending.pop()):
            if isinstance(node, GlobalVar) and node.name not in functions:
                functions[node.name] = library.functions[node.name]
                pending.append(functions[node.name])
    return Module(functions, module.data_types)


def _with_fewer_annotations(module: Module, draw: Draw) -> Module:
    """Return the module with annotations of its own functions left out at random."""
    own = [name for name in module.functions if name not in _library().functions]
    bare = {name: _bare(module.functions[name], draw, is_main=name == "main") for name in own}
    return module.with_functions({**module.functions, **bare})


def _bare(function: Function, draw: Draw, *, is_main: bool) -> Function:
    kept = set(function.params) if is_main or function.type_params else set()

    def rule(node: Expr) -> Expr:
        match node:
            case Var(annotation=type_) if type_ is not None and node not in kept:
                kept_here = bool(free_type_variables(type_)) or draw.chance(0.4)
                return node if kept_here else replace(node, annotation=None)
            case Function(result_type=result) if result is not None:
                is_open = bool(node.type_params) or bool(free_type_variables(result))
                kept_here = is_open or draw.chance(0.4)
                return node if kept_here else replace(node, result_type=None)
            case _:
                return node

    found = rewrite(function, rule)
    assert isinstance(found, Function), "a function stays one"
    return found


def _with_unknown_lengths(module: Module, draw: Draw) -> Module:
    """Return the module with `?` for some lengths of annotations that are left."""

    def opened(type_: Type) -> Type:
        if isinstance(type_, TensorType):
            shape = tuple(UNKNOWN if draw.chance(0.3) else dim for dim in type_.shape)
            return TensorType(shape, type_.dtype)
        return with_parts(type_, tuple(map(opened, parts(type_))))

    def rule(node: Expr) -> Expr:
        match node:
            case Var(annotation=type_) if type_ is not None and draw.chance(0.5):
                return replace(node, annotation=opened(type_))
            case Function(result_type=result) if result is not None:
                return replace(node, result_type=None if node.type_params == () else result)
            case _:
                return node

    functions = {
        name: function if name in _library().functions else rewrite(function, rule)
        for name, function in module.functions.items()
    }
    return module.with_functions(functions)  # type: ignore[arg-type]
