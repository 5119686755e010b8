"""nn.cross_entropy and nn.cross_entropy_with_logits: the loss of a classifier, one number.

    cross_entropy             = -sum over n, c of log(predictions[n, c]) * targets[n, c] / N
    cross_entropy_with_logits = -sum over n, c of logarithms[n, c] * targets[n, c] / N

Both operands are Tensor[(N, C)]; the second takes logarithms of probabilities, such as those of
nn.log_softmax. Computed in float64 and rounded once. A batch without rows is refused.

Source: Relay operators `nn.cross_entropy` and `nn.cross_entropy_with_logits`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ops.numeric import ieee
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    FLOATS,
    HOST_FLOAT,
    mistake,
    per_input_element,
    require_dtype,
    require_rank,
    require_same_dtype,
    spelled,
    tensors,
)


def _relation(call: Call, types: tuple[Type, ...]) -> Type:
    predictions, targets = tensors(call, types, 2)
    require_dtype(call, predictions, FLOATS, "predictions")
    require_same_dtype(call, (predictions, targets))
    for each in (predictions, targets):
        require_rank(call, each, 2, "a batch of rows")
    for mine, other in zip(predictions.shape, targets.shape, strict=True):
        if mine != other and UNKNOWN not in (mine, other):
            found = f"{spelled(predictions)} and {spelled(targets)}"
            raise mistake(call, "takes two tensors of one shape", f"found {found}")
    if 0 in (predictions.shape[0], targets.shape[0]):
        raise mistake(call, "has no value without rows", f"found {spelled(predictions)}")
    return TensorType((), predictions.dtype)


def _loss(logarithms: Array, targets: Array) -> Array:
    terms = logarithms * targets.astype(np.float64)
    return np.asarray(-np.sum(terms) / len(targets)).astype(targets.dtype)


@ieee
def _cross_entropy(predictions: Array, targets: Array) -> Array:
    return _loss(np.log(predictions.astype(np.float64)), targets)


@ieee
def _with_logits(logarithms: Array, targets: Array) -> Array:
    return _loss(logarithms.astype(np.float64), targets)


def _operator(name: str, reference: Callable[[Array, Array], Array], operations: int) -> Operator:
    return Operator(
        name=name,
        relation=_relation,
        reference=reference,
        fusion=Fusion.OPAQUE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_input_element(operations),
    )


OPERATORS: Final = (
    _operator("nn.cross_entropy", _cross_entropy, 3),
    _operator("nn.cross_entropy_with_logits", _with_logits, 2),
)
"""Every operator of this file."""
