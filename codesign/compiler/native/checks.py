"""What `?` lets through is looked at when a program runs: annotations, and lengths with names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from codesign.compiler.native.blocks import Writer
from codesign.compiler.native.module import ModuleWriter
from codesign.ir.control.program import CheckLength, CheckShape, Value
from codesign.ir.relay.expr import Var
from codesign.ir.relay.types import Length, TensorType, TupleType, Type


@final
class Checks:
    """Writes checks into one function; `field(value, index, type)` takes fields of tuples."""

    def __init__(
        self,
        writer: Writer,
        module: ModuleWriter,
        field: Callable[[Value, int, TupleType], Value],
    ) -> None:
        self._writer = writer
        self._module = module
        self._field = field

    def annotation(self, var: Var, value: Value) -> None:
        """Fail where a tensor has not the extents that a variable's annotation knows."""
        if var.annotation is not None and self._module.has_unknown:
            self._fits(var, value, var.annotation)

    def _fits(self, var: Var, value: Value, expected: Type) -> None:
        match expected:
            case TensorType():
                site = self._module.site_of_annotation(var, expected)
                self._writer.add(CheckShape(value, expected, site))
            case TupleType(fields):
                for index, field in enumerate(fields):
                    if isinstance(field, TensorType | TupleType):
                        self._fits(var, self._field(value, index, expected), field)
            case _:
                pass

    def lengths(self, params: Sequence[Var], values: Sequence[Value]) -> None:
        """Fail where one name is two lengths among the parameters of a function."""
        first: dict[Length, tuple[Value, int, str]] = {}
        waiting = [
            (param.name, param.annotation, value)
            for param, value in zip(params, values, strict=True)
        ]
        for name, type_, value in waiting:
            match type_:
                case TensorType(lengths=lengths):
                    for axis, length in enumerate(lengths):
                        if length is None:
                            continue
                        other, place, where = first.setdefault(length, (value, axis, name))
                        if (other, place) != (value, axis):
                            site = self._module.site_of_length(length, where, name, params[0].span)
                            self._writer.add(CheckLength(other, place, value, axis, site))
                case TupleType(fields):
                    waiting += [
                        (name, field, self._field(value, index, type_))
                        for index, field in enumerate(fields)
                    ]
                case _:
                    pass
