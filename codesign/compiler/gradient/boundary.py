"""Between the types that users see and the lifted ones: what enters and what leaves.

    lift   a parameter's tensors each get a cell of zeros
    seed   ones are added to the cells of the result; gives the value without cells
    read   what has flowed back into a parameter, in the parameter's own type; integers give zeros

Values of data types are walked by generated functions, one for each data type and direction, which
take what to do with each type parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, final

from codesign.compiler.gradient.lift import sequence
from codesign.compiler.gradient.lifted_types import LiftedTypes, fresh_name
from codesign.diagnostics import CodesignError, InternalError, Problem
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Match,
    PatternConstructor,
    PatternVar,
    Project,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
)
from codesign.ir.relay.module import ConstructorDefinition, Module, TypeDefinition
from codesign.ir.relay.type_algebra import parts, substitute_type
from codesign.ir.relay.types import (
    FuncType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    type_text,
)
from codesign.ops.table import call


@final
@dataclass(frozen=True, slots=True)
class _Direction:
    """What happens to a tensor with a gradient and to another one; whether it goes into pairs."""

    name: str
    smooth: Callable[[Expr], Expr]
    other: Callable[[Expr], Expr]
    is_lifting: bool
    is_identity_on_others: bool


def _lift(tensor: Expr) -> Expr:
    return Tuple((tensor, RefNew(call("zeros_like", tensor))))


def _seed(pair: Expr) -> Expr:
    value, cell = Project(pair, 0), Project(pair, 1)
    ones = call("add", RefRead(cell), call("ones_like", value))
    return sequence([(Var("_"), RefWrite(cell, ones))], value)


def _read(pair: Expr) -> Expr:
    return RefRead(Project(pair, 1))


def _same(tensor: Expr) -> Expr:
    return tensor


def _nothing(tensor: Expr) -> Expr:
    return call("zeros_like", tensor)


_LIFT: Final = _Direction("lift", _lift, _same, True, True)
_SEED: Final = _Direction("seed", _seed, _same, False, True)
_READ: Final = _Direction("read", _read, _nothing, False, False)


@final
class Boundary:
    """Converts values at the border; `functions` grows by the functions that walk data types."""

    def __init__(self, module: Module, lifted: LiftedTypes, taken: Iterable[str]) -> None:
        self.functions: dict[str, Function] = {}
        self._module = module
        self._lifted = lifted
        self._taken = set(taken)
        self._walkers: dict[tuple[str, str], str] = {}

    def check(self, name: str, function: Function, signature: FuncType) -> None:
        """Refuse functions, cells and opaque values in what a function takes and gives.

        Raises
        ------
        CodesignError
            One problem for each parameter and for the result.
        """
        places = [
            (f"parameter %{param.name} of @{name}", type_, param.span or function.span)
            for param, type_ in zip(function.params, signature.params, strict=True)
        ]
        places.append((f"the result of @{name}", signature.result, function.span))
        mistakes = [
            Problem(
                what=f"{place} has {reason} in it, which has no gradient",
                found=f"found {type_text(type_)}",
                span=span,
                help="take and give tensors, tuples and values of data types",
            )
            for place, type_, span in places
            if (reason := self._obstacle(type_, set())) is not None
        ]
        if mistakes:
            raise CodesignError(*mistakes)

    def _obstacle(self, type_: Type, seen: set[str]) -> str | None:
        match type_:
            case FuncType():
                return "a function"
            case RefType():
                return "a cell"
            case TypeCall(name) if name not in seen:
                seen.add(name)
                definition = self._module.data_types[name]
                if definition.is_extern:
                    return f"the opaque type {name}"
                below = [each for c in definition.constructors for each in c.fields]
            case _:
                below = []
        found = (self._obstacle(each, seen) for each in (*parts(type_), *below))
        return next((each for each in found if each is not None), None)

    def lift(self, type_: Type, value: Expr) -> Expr:
        """Return a value of the type with a cell for each tensor."""
        return self._convert(_LIFT, type_, value, {})

    def seed(self, type_: Type, value: Expr) -> Expr:
        """Return a lifted value of the type without its cells, to which ones are added."""
        return self._convert(_SEED, type_, value, {})

    def read(self, type_: Type, value: Expr) -> Expr:
        """Return what the cells of a lifted value of the type hold."""
        return self._convert(_READ, type_, value, {})

    def _convert(
        self, direction: _Direction, type_: Type, value: Expr, known: Mapping[TypeVar, Var]
    ) -> Expr:
        if self._is_untouched(direction, type_):
            return value
        match type_:
            case TensorType(_, dtype):
                return (direction.smooth if dtype.is_float else direction.other)(value)
            case TupleType(fields):
                return Tuple(
                    tuple(
                        self._convert(direction, each, Project(value, i), known)
                        for i, each in enumerate(fields)
                    )
                )
            case TypeVar():
                return Call(known[type_], (value,))
            case TypeCall(name, args):
                walker = GlobalVar(self._walker(direction, self._module.data_types[name]))
                how = tuple(self._converter(direction, each, known) for each in args)
                return Call(walker, (*how, value))
            case _:
                raise InternalError(f"a value of {type_text(type_)} does not cross the border")

    def _is_untouched(self, direction: _Direction, type_: Type) -> bool:
        if not direction.is_identity_on_others or isinstance(type_, TypeVar):
            return False
        return self._lifted.lift(type_) == type_ and not _has_parameters(type_)

    def _converter(self, direction: _Direction, type_: Type, known: Mapping[TypeVar, Var]) -> Expr:
        if isinstance(type_, TypeVar):
            return known[type_]
        value = Var("value", self._source(direction, type_, known))
        return Function((value,), self._convert(direction, type_, value, known))

    def _source(self, direction: _Direction, type_: Type, known: Mapping[TypeVar, Var]) -> Type:
        """Return the type of what is converted; a type parameter is that of its function."""
        lifted = type_ if direction.is_lifting else self._lifted.lift(type_)
        return substitute_type(lifted, {var: _argument(how) for var, how in known.items()})

    def _walker(self, direction: _Direction, definition: TypeDefinition) -> str:
        """Return the name of the function that walks a data type; make it at first use."""
        key = (direction.name, definition.name)
        if key not in self._walkers:
            name = fresh_name(f"{direction.name}_{definition.name}", self._taken)
            self._taken.add(name)
            self._walkers[key] = name
            self.functions[name] = self._walking(direction, definition)
        return self._walkers[key]

    def _walking(self, direction: _Direction, definition: TypeDefinition) -> Function:
        before = definition.type_params
        after = tuple(TypeVar(f"{each.name}_after") for each in before)
        how = {
            var: Var(f"on_{var.name}", FuncType((var,), new))
            for var, new in zip(before, after, strict=True)
        }
        twin = self._lifted.data_types.get(definition.name, definition.name)
        names = (definition.name, twin) if direction.is_lifting else (twin, definition.name)
        value = Var("value", TypeCall(names[0], before))
        clauses = tuple(self._clause(direction, each, how) for each in definition.constructors)
        return Function(
            (*how.values(), value),
            Match(value, clauses),
            TypeCall(names[1], after),
            type_params=(*before, *after),
        )

    def _clause(
        self,
        direction: _Direction,
        constructor: ConstructorDefinition,
        how: Mapping[TypeVar, Var],
    ) -> Clause:
        fields = tuple(Var(f"field{i}") for i in range(len(constructor.fields)))
        twin = self._lifted.constructors.get(constructor.name, constructor.name)
        names = (constructor.name, twin) if direction.is_lifting else (twin, constructor.name)
        new = tuple(
            self._convert(direction, type_, var, how)
            for type_, var in zip(constructor.fields, fields, strict=True)
        )
        pattern = PatternConstructor(names[0], tuple(map(PatternVar, fields)))
        return Clause(pattern, Call(Constructor(names[1]), new))


def _argument(converter: Var) -> Type:
    assert isinstance(converter.annotation, FuncType), "a converter is a function"
    return converter.annotation.params[0]


def _has_parameters(type_: Type) -> bool:
    return isinstance(type_, TypeVar) or any(map(_has_parameters, parts(type_)))
