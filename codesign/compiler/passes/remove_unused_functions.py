"""remove-unused-functions: drop global functions that main does not reach.

    def @helper(%x) { exp(%x) }
    def @main(%x) { nn.relu(%x) }
becomes
    def @main(%x) { nn.relu(%x) }

A module without `main` is a library and stays whole. Law: a second run changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.annotate import without_unreached
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.module import Module


@final
@dataclass(frozen=True, slots=True)
class RemoveUnusedFunctions:
    """Keep what main reaches."""

    name: ClassVar[str] = "remove-unused-functions"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with the functions that main reaches."""
        return without_unreached(module)
