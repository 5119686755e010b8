"""A Relay module: global functions by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from codesign.ir.relay.expr import Function


@final
@dataclass(frozen=True, slots=True)
class Module:
    """Global functions by name; `main` is the entry."""

    functions: Mapping[str, Function]

    @property
    def main(self) -> Function:
        """The entry function."""
        return self.functions["main"]

    def with_main(self, main: Function) -> Module:
        """Return the module with another entry function."""
        return Module({**self.functions, "main": main})
