"""Types of reverse mode: each floating-point tensor t becomes a pair (t, ref(t)).

The cell collects what flows back into the tensor. Other tensors have no gradient and stay; so do
type parameters, and data types that mention no floating-point tensor: List[t] becomes
List[(t, ref(t))]. Data types that do mention one have a lifted twin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from codesign.ir.relay.module import Module, TypeDefinition
from codesign.ir.relay.type_algebra import parts, with_parts
from codesign.ir.relay.types import RefType, TensorType, TupleType, Type, TypeCall

_SUFFIX: Final = "_reverse"


def fresh_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, with a number where it is taken."""
    known = taken if isinstance(taken, set) else set(taken)
    if name not in known:
        return name
    return next(each for n in range(1, len(known) + 2) if (each := f"{name}{n}") not in known)


@final
@dataclass(frozen=True, slots=True)
class LiftedTypes:
    """The lifted twins of data types and constructors, by name; others stay as they are."""

    data_types: Mapping[str, str]
    constructors: Mapping[str, str]

    @classmethod
    def of(cls, module: Module) -> LiftedTypes:
        """Return the twins that the data types of a module need."""
        changed: set[str] = set()
        while True:
            more = {
                name
                for name, definition in module.data_types.items()
                if name not in changed and _mentions(definition, changed)
            }
            if not more:
                break
            changed |= more
        names: dict[str, str] = {}
        constructors: dict[str, str] = {}
        taken = set(module.data_types)
        taken_constructors = set(module.constructors())
        for name, definition in module.data_types.items():
            if name in changed:
                names[name] = fresh_name(name + _SUFFIX, taken)
                taken.add(names[name])
                for each in definition.constructors:
                    twin = fresh_name(each.name + _SUFFIX, taken_constructors)
                    constructors[each.name] = twin
                    taken_constructors.add(twin)
        return cls(names, constructors)

    def lift(self, type_: Type) -> Type:
        """Return the lifted type, itself where nothing in it has a gradient."""
        if isinstance(type_, TensorType):
            return TupleType((type_, RefType(type_))) if type_.dtype.is_float else type_
        lifted = with_parts(type_, tuple(map(self.lift, parts(type_))))
        if isinstance(lifted, TypeCall) and lifted.name in self.data_types:
            return replace(lifted, name=self.data_types[lifted.name])
        return lifted

    def definitions(self, module: Module) -> dict[str, TypeDefinition]:
        """Return the definitions of the twins by name."""
        return {
            twin: replace(
                module.data_types[name],
                name=twin,
                constructors=tuple(
                    replace(
                        each,
                        name=self.constructors[each.name],
                        fields=tuple(map(self.lift, each.fields)),
                    )
                    for each in module.data_types[name].constructors
                ),
            )
            for name, twin in self.data_types.items()
        }


def _mentions(definition: TypeDefinition, changed: set[str]) -> bool:
    """Return whether a field of a data type has a floating-point tensor or a changed type in it."""
    return any(
        _has_gradient(field, changed) for each in definition.constructors for field in each.fields
    )


def _has_gradient(type_: Type, changed: set[str]) -> bool:
    if isinstance(type_, TensorType):
        return type_.dtype.is_float
    if isinstance(type_, TypeCall) and type_.name in changed:
        return True
    return any(_has_gradient(each, changed) for each in parts(type_))
