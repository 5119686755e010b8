"""Operators on many samples at once: a new first axis, or why there is none.

Operators by element keep their call: constants broadcast from the right, and operands of samples
all have the result's rank. Of `nn.dense`, the weight is a constant. Axes that count from the left
move by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from codesign.diagnostics import CodesignError, Problem
from codesign.ir.relay.expr import Attrs, Call, Expr, OpRef
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.operator import Fusion
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.split import SplitAttrs
from codesign.ops.table import operator

_ALONG: Final = frozenset({"split", "concatenate", "nn.softmax", "nn.log_softmax", "nn.bias_add"})


def vectorized(call: Call, args: tuple[Expr, ...], types: Sequence[Type], many: list[bool]) -> Call:
    """Return a call on samples: `many` says which arguments have the new axis.

    `types` are the arguments' types without it.

    Raises
    ------
    CodesignError
        The operator has no form for many samples, at the call's place.
    """
    assert isinstance(call.callee, OpRef), "operators are vectorized"
    name = call.callee.name
    record = operator(name)
    if name == "nn.dense" and many == [True, False]:
        return replace(call, args=args)
    if name in _ALONG and many[0] and not any(many[1:]):
        return replace(call, args=args, attrs=_moved(call.attrs))
    match call.attrs:
        case ReshapeAttrs(shape=shape) if many == [True] and min(shape, default=1) > 0:
            return replace(call, args=args, attrs=ReshapeAttrs(shape=(-1, *shape)))
        case _:
            pass
    by_element = record.fusion <= Fusion.BROADCAST and name not in _ALONG
    if by_element and _fits(types, many):
        return replace(call, args=args)
    raise CodesignError(
        Problem(
            what=f"{name} has no form for many samples at once",
            found="its operands are of different ranks, or it is no operator by element",
            help="operators by element have one, and nn.dense with a constant weight, split, "
            "concatenate, softmax and reshape to a known shape",
            span=call.span,
        )
    )


def _fits(types: Sequence[Type], many: list[bool]) -> bool:
    ranks = [len(each.shape) for each in types if isinstance(each, TensorType)]
    if len(ranks) < len(many):
        return False
    return all(rank == max(ranks) for rank, each in zip(ranks, many, strict=True) if each)


def _moved(attrs: Attrs | None) -> Attrs:
    match attrs:
        case AxisAttrs(axis=axis) | SplitAttrs(axis=axis) | BiasAddAttrs(axis=axis):
            return replace(attrs, axis=axis + 1 if axis >= 0 else axis)
        case _:
            raise AssertionError("an operator along an axis says which")


def with_samples(type_: Type, samples: TensorType) -> Type:
    """Return a type with the first axis of `samples` before its own."""
    match type_:
        case TensorType(shape, dtype, lengths):
            named = (*samples.lengths[:1], *(lengths or (None,) * len(shape)))
            has_names = any(each is not None for each in named)
            return TensorType((samples.shape[0], *shape), dtype, named if has_names else ())
        case TupleType(fields):
            return TupleType(tuple(with_samples(each, samples) for each in fields))
        case _:
            raise AssertionError("samples are tensors")
