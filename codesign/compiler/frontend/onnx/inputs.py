"""Inputs of an ONNX graph as types: symbolic dimensions get their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from codesign.compiler.frontend.onnx.errors import (
    ShapeConflict,
    UnboundDimension,
    malformed,
)
from codesign.compiler.frontend.onnx.tensors import element_type, type_name
from codesign.diagnostics import CodesignError, Diagnostic
from codesign.ir.relay.types import TensorType

Shape = tuple[int, ...]
_Declared = tuple[int | str, ...]


def input_types(
    graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]], path: Path
) -> tuple[tuple[str, TensorType], ...]:
    """Return the graph's inputs in order, initializers left out.

    `shapes` says the shape of an input by its name. A symbol that one input binds is bound in
    all; a leading symbolic dimension without a value is a batch of 1.

    Raises
    ------
    CodesignError
        Every dimension without a value, and every given shape that does not fit, together.
    """
    stored = {each.name for each in graph.initializer}
    values = [each for each in graph.input if each.name not in stored]
    declared = {each.name: _declared_shape(each, path) for each in values}
    unknown = sorted(set(shapes) - set(declared))
    if unknown:
        raise CodesignError.of(
            f"a shape is given for {unknown[0]!r}, which is no input of the network",
            found=f"its inputs are {', '.join(sorted(declared))}",
        )
    problems: list[Diagnostic] = []
    symbols: dict[str, int] = {}
    for name, given in shapes.items():
        problems += _bind(name, tuple(given), declared[name], symbols)
    result = []
    for value in values:
        shape, missing = _resolve(value.name, declared[value.name], shapes, symbols)
        problems += missing
        dtype = element_type(value.type.tensor_type.elem_type)
        if dtype is None:
            kind = type_name(value.type.tensor_type.elem_type)
            raise malformed(path, f"input {value.name!r} has elements of {kind}, unknown here")
        result.append((value.name, TensorType(shape, dtype)))
    if problems:
        raise CodesignError(*problems)
    return tuple(result)


def _declared_shape(value: onnx.ValueInfoProto, path: Path) -> _Declared:
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        raise malformed(path, f"input {value.name!r} is no tensor of a declared rank")
    return tuple(
        dim.dim_value
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else (dim.dim_param or "?")
        for dim in value.type.tensor_type.shape.dim
    )


def _text(declared: _Declared) -> str:
    return f"({', '.join(map(str, declared))})"


def _bind(
    name: str, given: Shape, declared: _Declared, symbols: dict[str, int]
) -> list[Diagnostic]:
    def conflict(reason: str) -> list[Diagnostic]:
        return [ShapeConflict(name=name, given=str(given), declared=_text(declared), reason=reason)]

    if len(given) != len(declared):
        return conflict(f"that has {len(declared)} dimensions, {len(given)} are given")
    for axis, (dim, wanted) in enumerate(zip(given, declared, strict=True)):
        if dim < 0:
            return conflict(f"dimension {axis} cannot be {dim}")
        if isinstance(wanted, int) and dim != wanted:
            return conflict(f"dimension {axis} is fixed to {wanted}")
        if isinstance(wanted, str) and wanted != "?" and symbols.setdefault(wanted, dim) != dim:
            return conflict(f"{wanted} is {symbols[wanted]} elsewhere")
    return []


def _resolve(
    name: str,
    declared: _Declared,
    shapes: Mapping[str, Sequence[int]],
    symbols: Mapping[str, int],
) -> tuple[Shape, list[Diagnostic]]:
    if name in shapes:
        return tuple(int(dim) for dim in shapes[name]), []
    shape: list[int] = []
    missing: list[Diagnostic] = []
    for axis, dim in enumerate(declared):
        if isinstance(dim, int):
            shape.append(dim)
        elif dim in symbols:
            shape.append(symbols[dim])
        else:
            shape.append(1)
            if axis > 0:
                example = ", ".join(str(d) if isinstance(d, int) else "…" for d in declared)
                missing.append(
                    UnboundDimension(
                        name=name,
                        axis=axis,
                        symbol=dim,
                        declared=_text(declared),
                        help=f'give its shape: shapes={{"{name}": ({example})}}',
                    )
                )
    return tuple(shape), missing
