"""Diagnostics as text: title, place with a caret line, notes and help."""

from __future__ import annotations

from collections.abc import Iterable

from codesign.diagnostics.diagnostic import Diagnostic
from codesign.diagnostics.span import OnnxNode, TextRange


def render(diagnostic: Diagnostic) -> str:
    """Return the text that the user reads, without a trailing newline."""
    lines = [f"error: {diagnostic.title_text()}", *_place(diagnostic)]
    lines += [f"note: {note}" for note in diagnostic.notes]
    if diagnostic.help is not None:
        lines.append(f"help: {diagnostic.help}")
    return "\n".join(lines)


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """Return all diagnostics, separated by empty lines."""
    return "\n\n".join(render(each) for each in diagnostics)


def _place(diagnostic: Diagnostic) -> list[str]:
    label = diagnostic.label_text()
    match diagnostic.span:
        case TextRange() as span if span.line_text:
            margin = len(str(span.line))
            width = max(1, span.column_end - span.column)
            marks = " " * (span.column - 1) + "^" * width
            return [
                f"{' ' * margin}--> {span}",
                f"{' ' * margin} |",
                f"{span.line} | {span.line_text}",
                f"{' ' * margin} | {marks} {label}".rstrip(),
            ]
        case TextRange() | OnnxNode() as span:
            return [f" --> {span}", *([f"  | {label}"] if label else [])]
        case None:
            return [f"  | {label}"] if label else []
