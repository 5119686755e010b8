"""Where a piece of a program came from: a range of Relay text, or a node of an ONNX file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, final


@final
@dataclass(frozen=True, slots=True)
class TextRange:
    """A range in a named text; lines and columns count from 1, `column_end` is exclusive."""

    source: str
    line: int
    column: int
    column_end: int
    line_text: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


@final
@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node of an ONNX graph; `name` is its own or, where it has none, its output's."""

    source: str
    name: str
    operator: str

    def __str__(self) -> str:
        return f"{self.source}: node {self.name!r} ({self.operator})"


Span: TypeAlias = TextRange | OnnxNode
