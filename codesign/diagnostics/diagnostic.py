"""One mistake as data; `render` turns it into the text that a user reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, final

from codesign.diagnostics.span import Span


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One mistake; a subclass states `title` and `label` as templates over its own fields."""

    title: ClassVar[str] = ""
    label: ClassVar[str] = ""

    span: Span | None = None
    notes: tuple[str, ...] = ()
    help: str | None = None

    def title_text(self) -> str:
        """Return what is wrong, in one line."""
        return self.title.format_map(self._facts())

    def label_text(self) -> str:
        """Return what was found and what was expected."""
        return self.label.format_map(self._facts())

    def _facts(self) -> dict[str, object]:
        return asdict(self)


@final
@dataclass(frozen=True, kw_only=True)
class Problem(Diagnostic):
    """A mistake whose words are made where it is found."""

    title: ClassVar[str] = "{what}"
    label: ClassVar[str] = "{found}"

    what: str
    found: str = ""
