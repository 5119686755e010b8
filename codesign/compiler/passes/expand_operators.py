"""expand-operators: write composed operators as the simpler ones that they are made of.

    nn.depth_to_space(%x, block_size=2)
becomes
    reshape(transpose(reshape(%x, shape=[1, 2, 2, 3, 4, 5]), axes=[…]), shape=[1, 3, 8, 10])

Each composed operator's record says what it is made of (`codesign/ops/composed`), so that backends
and gradients need to know simple operators only.

Law: values stay as `docs/numbers.md` promises of functions and sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.rewriting.expansion import expanded
from codesign.ir.relay.module import Module


@final
@dataclass(frozen=True, slots=True)
class ExpandOperators:
    """Replace calls of composed operators by their expansions."""

    name: ClassVar[str] = "expand-operators"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module without such calls."""
        return expanded(module)
