"""lazy-gradient-init: keep zeros and ones that cells start with as what they are, not as tensors.

    let %r = ref(zeros_like(%x));
    let %w = ref_write(%r, add(ref_read(%r), %g));
    ref_read(%r)
becomes, with `type GradCell[T] { Raw(T), One(fn () -> T), Zero(fn () -> T) }`,
    let %r = ref(Zero(fn () { zeros_like(%x) }));
    let %w = ref_write(%r, match (ref_read(%r)) {
      Zero(_) => Raw(%g), One(%f) => Raw(add(%f(), %g)), Raw(%t) => Raw(add(%t, %g)) });
    match (ref_read(%r)) { Raw(%t) => %t, One(%f) => %f(), Zero(%f) => %f() }

so that the zeros of a gradient are never made where something is added to them, and not added to.
That is done to every cell of a tensor of known shape, in modules that fill one with zeros or ones.

Laws: the answer is the same but for the sign of zeros (0 + -0.0 is 0.0; docs/numbers.md); main's
type is the same; a second run changes nothing. A module with cells of type parameters stays as it
is.

Source: Relay's LazyGradientInit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    Match,
    OpRef,
    PatternConstructor,
    PatternVar,
    RefNew,
    RefRead,
    RefWrite,
    Var,
    Wildcard,
)
from codesign.ir.relay.module import ConstructorDefinition, Module, TypeDefinition
from codesign.ir.relay.rename import Names
from codesign.ir.relay.type_algebra import free_type_variables, parts, with_parts
from codesign.ir.relay.types import (
    UNKNOWN,
    FuncType,
    RefType,
    TensorType,
    Type,
    TypeCall,
    TypeVar,
)
from codesign.ir.relay.visit import post_order, rewrite_pairs
from codesign.ops.table import call

_FILLS: Final[Mapping[str, str]] = {
    "zeros": "Zero",
    "zeros_like": "Zero",
    "ones": "One",
    "ones_like": "One",
}
"""Operators that fill a tensor, and the constructor that stands for what they make."""


@final
@dataclass(frozen=True, slots=True)
class LazyGradientInit:
    """Fill cells with descriptions of zeros and ones."""

    name: ClassVar[str] = "lazy-gradient-init"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with lazily filled cells; itself where no cell is filled."""
        if not any(map(_is_filled, post_order(*module.functions.values()))):
            return module
        types = infer_types(module)
        definitions = module.data_types.values()
        fields = [field for each in definitions for c in each.constructors for field in c.fields]
        if any(map(_has_open_cell, (*types.values(), *fields))):
            return module
        return _Laziness(module, types).result()


def _is_filled(node: Expr) -> bool:
    match node:
        case RefNew(Call(OpRef(name))):
            return name in _FILLS
        case _:
            return False


def _has_open_cell(type_: Type) -> bool:
    """Return whether a type has cells whose content is a type parameter."""
    if isinstance(type_, RefType) and free_type_variables(type_.value):
        return True
    return any(map(_has_open_cell, parts(type_)))


def _is_lazy(type_: Type) -> bool:
    """Return whether cells of a type hold descriptions: of tensors whose shape is known."""
    return isinstance(type_, TensorType) and UNKNOWN not in type_.shape


@final
class _Laziness:
    def __init__(self, module: Module, types: Mapping[Expr, Type]) -> None:
        self._module = module
        self._types = types
        names = Names([*module.data_types, *module.constructors()])
        self._data = names.fresh("GradCell")
        self._raw, self._one, self._zero = map(names.fresh, ("Raw", "One", "Zero"))

    def result(self) -> Module:
        functions: dict[str, Function] = {}
        for name, function in self._module.functions.items():
            new = rewrite_pairs(function, self._rule)
            assert isinstance(new, Function), "a function stays one"
            functions[name] = new
        data = {name: self._definition(each) for name, each in self._module.data_types.items()}
        return Module(functions, {**data, self._data: self._cell_type()})

    def _cell_type(self) -> TypeDefinition:
        content = TypeVar("T")
        made_later = FuncType((), content)
        return TypeDefinition(
            self._data,
            (content,),
            (
                ConstructorDefinition(self._raw, (content,)),
                ConstructorDefinition(self._one, (made_later,)),
                ConstructorDefinition(self._zero, (made_later,)),
            ),
        )

    def _definition(self, definition: TypeDefinition) -> TypeDefinition:
        constructors = tuple(
            replace(each, fields=tuple(map(self._type, each.fields)))
            for each in definition.constructors
        )
        return replace(definition, constructors=constructors)

    def _type(self, type_: Type) -> Type:
        if isinstance(type_, RefType) and _is_lazy(type_.value):
            return RefType(TypeCall(self._data, (type_.value,)))
        return with_parts(type_, tuple(map(self._type, parts(type_))))

    def _rule(self, original: Expr, rebuilt: Expr) -> Expr:
        match original, rebuilt:
            case Var(annotation=annotation), Var() if annotation is not None:
                new = self._type(annotation)
                return rebuilt if new == annotation else replace(rebuilt, annotation=new)
            case Function(), Function(result_type=result) if result is not None:
                new = self._type(result)
                return rebuilt if new == result else replace(rebuilt, result_type=new)
            case RefNew(value), RefNew() if _is_lazy(self._types[value]):
                return replace(rebuilt, value=self._filled(rebuilt.value))
            case RefRead(), RefRead() if _is_lazy(self._types[original]):
                return self._read(rebuilt)
            case RefWrite(value=value), RefWrite() if _is_lazy(self._types[value]):
                return replace(rebuilt, value=self._written(original, rebuilt))
            case _:
                return rebuilt

    def _made(self, name: str, value: Expr) -> Call:
        return Call(Constructor(name, value.span), (value,), None, value.span)

    def _filled(self, value: Expr) -> Expr:
        match value:
            case Call(OpRef(name)) if name in _FILLS:
                constructor = self._zero if _FILLS[name] == "Zero" else self._one
                return self._made(constructor, Function((), value, span=value.span))
            case _:
                return self._made(self._raw, value)

    def _read(self, read: RefRead) -> Expr:
        content, one, zero = Var("t"), Var("f"), Var("f")
        clauses = (
            Clause(PatternConstructor(self._raw, (PatternVar(content),)), content),
            Clause(PatternConstructor(self._one, (PatternVar(one),)), Call(one, ())),
            Clause(PatternConstructor(self._zero, (PatternVar(zero),)), Call(zero, ())),
        )
        return Match(read, clauses, span=read.span)

    def _written(self, original: RefWrite, rebuilt: RefWrite) -> Expr:
        """Return what is put into a cell; a sum with what it holds may be what is added alone."""
        match original.value, rebuilt.value:
            case (
                Call(OpRef("add"), (RefRead(cell), added)),
                Call(OpRef("add"), (Match(RefRead() as read), new)),
            ) if cell is original.reference and self._types[added] == self._types[original.value]:
                return self._sum(read, new)
            case _:
                return self._made(self._raw, rebuilt.value)

    def _sum(self, read: RefRead, added: Expr) -> Expr:
        content, one = Var("t"), Var("f")
        clauses = (
            Clause(PatternConstructor(self._zero, (Wildcard(),)), self._made(self._raw, added)),
            Clause(
                PatternConstructor(self._one, (PatternVar(one),)),
                self._made(self._raw, call("add", Call(one, ()), added)),
            ),
            Clause(
                PatternConstructor(self._raw, (PatternVar(content),)),
                self._made(self._raw, call("add", content, added)),
            ),
        )
        return Match(read, clauses, span=read.span)
