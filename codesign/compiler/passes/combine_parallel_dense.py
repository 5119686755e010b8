"""combine-parallel-dense: products of one matrix with several weights become one product.

    (nn.dense(%x, w0), nn.dense(%x, w1), nn.dense(%x, w2))
becomes
    %0 = nn.dense(%x, concatenate((w0, w1, w2), axis=0));
    (columns of w0 of %0, columns of w1 of %0, columns of w2 of %0)
Elementwise operators that follow every one of them alike, with constants, are combined too. Where
`to_batch_matmul` says so, weights of one shape become a batch instead:
    %0 = nn.batch_matmul(reshape(%x), stacked weights); (%0[0], %0[1], %0[2])
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, final

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.compiler.rewriting.combine.branches import (
    Anchor,
    combined_branches,
    joined,
    shape_of,
    sliced,
)
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ops.expand_dims import ExpandDimsAttrs
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs
from codesign.ops.reshape import ReshapeAttrs


@final
@dataclass(frozen=True, slots=True)
class CombineParallelDense:
    """Join products of one tensor with several weights."""

    name: ClassVar[str] = "combine-parallel-dense"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    min_branches: int = 3
    """How many calls there must be."""
    to_batch_matmul: bool = False
    """Whether weights of one shape become a batch; else they stand side by side."""

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such calls combined."""
        types = infer_types(module)
        anchor: Anchor = _Batches() if self.to_batch_matmul else _Products()
        functions = {}
        for name, function in module.functions.items():
            body = combined_branches(function, types, anchor, self.min_branches)
            functions[name] = function if body is function.body else replace(function, body=body)
        if all(functions[name] is old for name, old in module.functions.items()):
            return module
        return module.with_functions(functions)


@final
@dataclass(frozen=True, slots=True)
class _Products:
    """Products with weights (units, k) of one k."""

    operator: ClassVar[str] = "nn.dense"
    takes_followers: ClassVar[bool] = True

    def key(self, call: Call, facts: Facts) -> Hashable | None:
        shape, data = facts.shape(call.args[1]), facts.shape(call.args[0])
        return None if shape is None or data is None else (shape[1], facts.dtype(call))

    def axis(self, call: Call, facts: Facts) -> int:
        return len(shape_of(call, facts)) - 1

    def length(self, call: Call, facts: Facts) -> int:
        return shape_of(call, facts)[-1]

    def combined(
        self, calls: Sequence[Call], data: Expr, weights: Sequence[Expr], facts: Facts
    ) -> Call:
        return replace(calls[0], args=(data, joined(weights, axis=0)))

    def part(self, whole: Expr, begin: int, length: int, axis: int, shape: tuple[int, ...]) -> Expr:
        return sliced(whole, begin, length, axis)


@final
@dataclass(frozen=True, slots=True)
class _Batches:
    """Products with weights (units, k) of one shape, as samples of a batch."""

    operator: ClassVar[str] = "nn.dense"
    takes_followers: ClassVar[bool] = False

    def key(self, call: Call, facts: Facts) -> Hashable | None:
        shape, data = facts.shape(call.args[1]), facts.shape(call.args[0])
        return None if shape is None or data is None else (shape, facts.dtype(call))

    def axis(self, call: Call, facts: Facts) -> int:
        return 0

    def length(self, call: Call, facts: Facts) -> int:
        return 1

    def combined(
        self, calls: Sequence[Call], data: Expr, weights: Sequence[Expr], facts: Facts
    ) -> Call:
        span = calls[0].span
        batches = [
            Call(OpRef("expand_dims", span), (weight,), ExpandDimsAttrs(axis=0), span)
            for weight in weights
        ]
        shape = ReshapeAttrs(shape=(1, -1, shape_of(weights[0], facts)[1]))
        rows = Call(OpRef("reshape", span), (data,), shape, span)
        stacked = joined(batches, axis=0)
        return Call(OpRef("nn.batch_matmul", span), (rows, stacked), BatchMatmulAttrs(), span)

    def part(self, whole: Expr, begin: int, length: int, axis: int, shape: tuple[int, ...]) -> Expr:
        sample = sliced(whole, begin, length, axis)
        attrs = ReshapeAttrs(shape=shape)
        return Call(OpRef("reshape", whole.span), (sample,), attrs, whole.span)
