"""combine-parallel-conv2d: convolutions of one image become one, whose channels are theirs.

    (nn.conv2d(%x, w0), nn.conv2d(%x, w1), nn.conv2d(%x, w2))
becomes
    %0 = nn.conv2d(%x, concatenate((w0, w1, w2), axis=0));
    (channels of w0 of %0, channels of w1 of %0, channels of w2 of %0)
Elementwise operators that follow every one of them alike, with constants, are combined too. The
convolutions differ in their weights only, and have one group.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, final

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.rewriting.combine.branches import combined_branches, joined, shape_of, sliced
from codesign.ir.relay.expr import Call, Expr
from codesign.ir.relay.module import Module
from codesign.ops.nn.conv2d import Conv2DAttrs


@final
@dataclass(frozen=True, slots=True)
class CombineParallelConv2D:
    """Join convolutions of one tensor."""

    name: ClassVar[str] = "combine-parallel-conv2d"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    min_branches: int = 3
    """How many calls there must be."""

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such calls combined."""
        types = infer_types(module)
        functions = {}
        for name, function in module.functions.items():
            body = combined_branches(function, types, _Convolutions(), self.min_branches)
            functions[name] = function if body is function.body else replace(function, body=body)
        if all(functions[name] is old for name, old in module.functions.items()):
            return module
        return module.with_functions(functions)


@final
@dataclass(frozen=True, slots=True)
class _Convolutions:
    """Convolutions of one group with weights of one size."""

    operator: ClassVar[str] = "nn.conv2d"
    takes_followers: ClassVar[bool] = True

    def key(self, call: Call, facts: Facts) -> Hashable | None:
        shape, data = facts.shape(call.args[1]), facts.shape(call.args[0])
        attrs = call.attrs
        if shape is None or data is None or not isinstance(attrs, Conv2DAttrs) or attrs.groups > 1:
            return None
        return attrs, shape[1:], facts.dtype(call)

    def axis(self, call: Call, facts: Facts) -> int:
        return 1

    def length(self, call: Call, facts: Facts) -> int:
        return shape_of(call, facts)[1]

    def combined(
        self, calls: Sequence[Call], data: Expr, weights: Sequence[Expr], facts: Facts
    ) -> Call:
        return replace(calls[0], args=(data, joined(weights, axis=0)))

    def part(self, whole: Expr, begin: int, length: int, axis: int, shape: tuple[int, ...]) -> Expr:
        return sliced(whole, begin, length, axis)
