"""What can be wrong with an ONNX file, or beyond what this compiler knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

from codesign.diagnostics import CodesignError, Diagnostic, Span


@final
@dataclass(frozen=True, kw_only=True)
class UnsupportedNode(Diagnostic):
    """A node is legal ONNX, but this compiler has no meaning for it."""

    title: ClassVar[str] = "ONNX operator {operator} (opset {opset}) is not supported: {reason}"

    operator: str
    opset: int
    reason: str


@final
@dataclass(frozen=True, kw_only=True)
class MalformedNode(Diagnostic):
    """A node breaks the ONNX specification."""

    title: ClassVar[str] = "ONNX node breaks the specification of {operator}: {reason}"

    operator: str
    reason: str


@final
@dataclass(frozen=True, kw_only=True)
class MalformedModel(Diagnostic):
    """A file is not an ONNX model, or a broken one."""

    title: ClassVar[str] = "cannot read {path!r} as an ONNX model"
    label: ClassVar[str] = "{reason}"

    path: str
    reason: str


@final
@dataclass(frozen=True, kw_only=True)
class UnboundDimension(Diagnostic):
    """A dimension of an input is symbolic, and nobody said what it is."""

    title: ClassVar[str] = "dimension {axis} ({symbol}) of input {name!r} has no value"
    label: ClassVar[str] = "the file declares {name}: {declared}"

    name: str
    axis: int
    symbol: str
    declared: str


@final
@dataclass(frozen=True, kw_only=True)
class ShapeConflict(Diagnostic):
    """A given shape disagrees with the declared one."""

    title: ClassVar[str] = "shape {given} does not fit input {name!r}"
    label: ClassVar[str] = "the file declares {name}: {declared}; {reason}"

    name: str
    given: str
    declared: str
    reason: str


def malformed(path: Path, reason: str, *, hint: str | None = None) -> CodesignError:
    """Return the error of a file that is no ONNX model, or a broken one."""
    return CodesignError(MalformedModel(path=str(path), reason=reason, help=hint))


def unsupported(operator: str, opset: int, reason: str, span: Span | None) -> CodesignError:
    """Return the error of a node without a meaning here."""
    return CodesignError(UnsupportedNode(operator=operator, opset=opset, reason=reason, span=span))
