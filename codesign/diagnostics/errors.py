"""The two errors of this project: the user's mistake and ours."""

from __future__ import annotations

from typing import Self

from codesign.diagnostics.diagnostic import Diagnostic, Problem
from codesign.diagnostics.render import render_all


class CodesignError(Exception):
    """The user's mistake: carries one diagnostic or several that were found together."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return render_all(self.diagnostics)

    @classmethod
    def of(cls, what: str, *, found: str = "", help: str | None = None) -> Self:  # noqa: A002
        """Return an error of one plain problem without a place in a text."""
        return cls(Problem(what=what, found=found, help=help))


class InternalError(Exception):
    """Our mistake: a promise between two parts of this project is broken."""
