"""combine-parallel-batch-matmul: batches of products of one left operand become one.

    (nn.batch_matmul(%x, w0), nn.batch_matmul(%x, w1), nn.batch_matmul(%x, w2))
becomes
    %0 = nn.batch_matmul(%x, concatenate((w0, w1, w2), axis=1));
    (columns of w0 of %0, columns of w1 of %0, columns of w2 of %0)
Elementwise operators that follow every one of them alike, with constants, are combined too.
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
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs


@final
@dataclass(frozen=True, slots=True)
class CombineParallelBatchMatmul:
    """Join products of one left operand."""

    name: ClassVar[str] = "combine-parallel-batch-matmul"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    min_branches: int = 3
    """How many calls there must be."""

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such calls combined."""
        types = infer_types(module)
        functions = {}
        for name, function in module.functions.items():
            body = combined_branches(function, types, _Batches(), self.min_branches)
            functions[name] = function if body is function.body else replace(function, body=body)
        if all(functions[name] is old for name, old in module.functions.items()):
            return module
        return module.with_functions(functions)


@final
@dataclass(frozen=True, slots=True)
class _Batches:
    """Batches of products with right operands of one batch and one reduced length."""

    operator: ClassVar[str] = "nn.batch_matmul"
    takes_followers: ClassVar[bool] = True

    def key(self, call: Call, facts: Facts) -> Hashable | None:
        shape, data = facts.shape(call.args[1]), facts.shape(call.args[0])
        if shape is None or data is None:
            return None
        columns = _columns(call)
        return call.attrs, shape[:columns] + shape[columns + 1 :], facts.dtype(call)

    def axis(self, call: Call, facts: Facts) -> int:
        return 2

    def length(self, call: Call, facts: Facts) -> int:
        return shape_of(call, facts)[2]

    def combined(
        self, calls: Sequence[Call], data: Expr, weights: Sequence[Expr], facts: Facts
    ) -> Call:
        return replace(calls[0], args=(data, joined(weights, axis=_columns(calls[0]))))

    def part(self, whole: Expr, begin: int, length: int, axis: int, shape: tuple[int, ...]) -> Expr:
        return sliced(whole, begin, length, axis)


def _columns(call: Call) -> int:
    """Return the axis of the right operand that gives the columns of the result."""
    assert isinstance(call.attrs, BatchMatmulAttrs), "checked by type inference"
    return 1 if call.attrs.transpose_b else 2
