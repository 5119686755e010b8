"""to-a-normal-form: bind every value by a `let`, in the order of evaluation.

    add(nn.relu(%x), exp(%x))
becomes
    let %v1 = nn.relu(%x); let %v2 = exp(%x); add(%v1, %v2)

Operands are atoms: variables, constants, global functions, constructors. The last value of a block
(a function's body, a branch, a clause) stays where it is, so that a call in tail position is one
still. A shared node is bound once, in the innermost block around its uses.

Laws: the answer is the same bit for bit, so are the types; what is in this form is left alone. Time
is linear in the nodes; sharing is never expanded.

Source: Flanagan et al., "The Essence of Compiling with Continuations" (1993); Relay's
ToANormalForm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.rewriting.a_normal import to_a_normal
from codesign.ir.relay.module import Module


@final
@dataclass(frozen=True, slots=True)
class ToANormalForm:
    """Bind every value that is no atom and not the last of its block."""

    name: ClassVar[str] = "to-a-normal-form"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.A_NORMAL, Form.BASIC_BLOCK})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module in A-normal form."""
        return to_a_normal(module)
