"""The gradient of nn.batch_norm with given statistics, which are arguments like the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codesign.ir.relay.expr import Expr
from codesign.ops.gradients.expressions import (
    add,
    along_axis,
    multiply,
    negative,
    number,
    op,
    subtract,
    tensor,
    total,
)
from codesign.ops.nn.batch_norm import BatchNormAttrs
from codesign.ops.operator import Forward, Gradient, NotDifferentiable


def _batch_norm(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """With r = rsqrt(variance + epsilon): result = (data - mean) * r * gamma + beta."""
    attrs = call.attrs
    assert isinstance(attrs, BatchNormAttrs), "the attributes of nn.batch_norm"
    data, gamma, _, mean, variance = call.args
    type_ = call.result_type
    rank = len(tensor(type_).shape)
    others = [axis for axis in range(rank) if axis != 1]
    root = op("rsqrt", add(variance, number(attrs.epsilon, type_)))
    factor = multiply(gamma, root)
    apart = subtract(data, along_axis(mean, 1, rank))
    beta_adjoint = total(adjoint, others)
    gamma_adjoint = multiply(total(multiply(adjoint, apart), others), root)
    slope = multiply(multiply(root, root), number(-0.5, type_))
    return (
        multiply(adjoint, along_axis(factor, 1, rank)),
        gamma_adjoint,
        beta_adjoint,
        negative(multiply(beta_adjoint, factor)),
        multiply(multiply(gamma_adjoint, gamma), slope),
    )


GRADIENTS: Final[Mapping[str, Gradient | NotDifferentiable]] = {"nn.batch_norm": _batch_norm}
"""The rule of every operator of this kind."""
