"""simplify-inference: write normalizations by stored statistics as arithmetic.

    nn.batch_norm(%x, gamma, beta, mean, variance, epsilon=e)
becomes
    add(multiply(%x, scale), shift)
where scale = gamma / sqrt(variance + e) and shift = beta - mean * scale, both per channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, Type
from codesign.ir.relay.visit import rewrite_pairs
from codesign.ops.nn.batch_norm import BatchNormAttrs


@final
@dataclass(frozen=True, slots=True)
class SimplifyInference:
    """Replace nn.batch_norm of constant statistics by a product and a sum."""

    name: ClassVar[str] = "simplify-inference"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.INFERENCE})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module without such calls."""
        types = infer_types(module)
        return map_bodies(
            module, lambda body: rewrite_pairs(body, lambda old, new: _rule(old, new, types))
        )


def _rule(original: Expr, rebuilt: Expr, types: Mapping[Expr, Type]) -> Expr:
    match rebuilt:
        case Call(
            OpRef("nn.batch_norm"),
            (data, Constant(gamma), Constant(beta), Constant(mean), Constant(variance)),
            BatchNormAttrs(epsilon=epsilon),
            span,
        ):
            type_ = types[original]
            assert isinstance(type_, TensorType), "nn.batch_norm gives a tensor"
            factor = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
            offset = beta.astype(np.float64) - mean.astype(np.float64) * factor
            shape = (-1,) + (1,) * (len(type_.shape) - 2)
            scale, shift = (
                Constant(each.astype(type_.dtype.numpy).reshape(shape), span)
                for each in (factor, offset)
            )
            product = Call(OpRef("multiply", span), (data, scale), None, span)
            return Call(OpRef("add", span), (product, shift), None, span)
        case _:
            return rebuilt
