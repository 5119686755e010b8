"""Reviewed texts: files of cases `// CASE name`, what goes in, `// EXPECT`, what must come out."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

import pytest

_CASE = "// CASE "
_EXPECT = "// EXPECT\n"


class Golden(NamedTuple):
    """One case of a file."""

    path: Path
    name: str
    text: str
    wanted: str

    @property
    def file(self) -> str:
        """The name of the file without its ending."""
        return self.path.stem


def golden_cases(folder: Path) -> list[Golden]:
    """Return every case of the `.relay` files of a folder."""
    return [
        Golden(path, *_parts(block))
        for path in sorted(folder.glob("*.relay"))
        for block in path.read_text(encoding="utf-8").split(_CASE)[1:]
    ]


def _parts(block: str) -> tuple[str, str, str]:
    name, rest = block.split("\n", 1)
    text, wanted = rest.split(_EXPECT)
    return name, text, wanted


def check_golden(case: Golden, found: str, config: pytest.Config) -> None:
    """Fail with the difference where the text is another; `--update-golden` writes it instead."""
    if found == case.wanted:
        return
    if config.getoption("--update-golden"):
        old = f"{_CASE}{case.name}\n{case.text}{_EXPECT}{case.wanted}"
        content = case.path.read_text(encoding="utf-8")
        assert content.count(old) == 1, f"{case.path} has changed while the tests ran"
        case.path.write_text(content.replace(old, old.removesuffix(case.wanted) + found))
        return
    lines = unified_diff(
        case.wanted.splitlines(), found.splitlines(), "reviewed", "found", lineterm=""
    )
    shown = "\n".join(lines)
    pytest.fail(f"{shown}\nrerun with --update-golden if the new output is right", pytrace=False)
