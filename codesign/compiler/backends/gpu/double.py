"""Definitions of the C library's functions that kernels call and a GPU does not have."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

_DEFINED: Final = re.compile(r"^define internal \w+ @(\w+)\(", re.MULTILINE)
_DECLARED: Final = re.compile(r"@([\w.]+)\(")


def define_library(declarations: set[str]) -> str:
    """Return definitions, if any is declared; take out of `declarations` what they define."""
    text = resources.files(__package__).joinpath("double.ll").read_text(encoding="utf-8")
    defined = set(_DEFINED.findall(text))
    wanted = {each for each in declarations if _name(each) in defined}
    if not wanted:
        return ""
    own = {line for line in text.splitlines() if line.startswith("declare")}
    declarations -= wanted
    declarations -= {each for each in declarations if _name(each) in set(map(_name, own))}
    return text


def _name(declaration: str) -> str:
    found = _DECLARED.search(declaration)
    return found.group(1) if found else ""
