"""Mistakes as data: where, what was found, what was expected, what to do."""

from __future__ import annotations

from codesign.diagnostics.diagnostic import Diagnostic, Problem
from codesign.diagnostics.errors import CodesignError, InternalError
from codesign.diagnostics.span import OnnxNode, Span, TextRange

__all__ = [
    "CodesignError",
    "Diagnostic",
    "InternalError",
    "OnnxNode",
    "Problem",
    "Span",
    "TextRange",
]
