"""The whole vocabulary as one immutable table, and the constructor of calls.

Examples
--------
>>> OPERATORS["nn.relu"].fusion.name
'ELEMENTWISE'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from codesign.diagnostics import CodesignError, Problem, Span
from codesign.ir.relay.expr import Attrs, Call, Expr, OpRef
from codesign.ops import (
    binary,
    broadcast_to,
    cast,
    clip,
    collapse_sum,
    concatenate,
    counting,
    dynamic,
    expand_dims,
    fast,
    filled,
    indexing,
    layout_transform,
    like,
    one_hot,
    reduce,
    repeating,
    reshape,
    split,
    strided_slice,
    transpose,
    unary,
)
from codesign.ops.composed import (
    arithmetic,
    blocks,
    layers,
    lines,
    moving,
    ordering,
    places,
    reductions,
    scatter,
    sequences,
    told,
    volumes,
)
from codesign.ops.gradients.table import GRADIENTS
from codesign.ops.image import resize2d
from codesign.ops.nn import (
    activations,
    batch_matmul,
    batch_norm,
    bias_add,
    conv2d,
    conv2d_transpose,
    cross_entropy,
    dense,
    dropout,
    normalization,
    pad,
    pool2d,
    softmax,
)
from codesign.ops.operator import Operator, ThroughExpansion
from codesign.ops.qnn import add as qnn_add
from codesign.ops.qnn import conv2d as qnn_conv2d
from codesign.ops.qnn import dense as qnn_dense
from codesign.ops.qnn import lookup as qnn_lookup
from codesign.ops.qnn import matmul as qnn_matmul
from codesign.ops.qnn import multiply as qnn_multiply
from codesign.ops.qnn import quantize as qnn_quantize
from codesign.ops.qnn import requantize as qnn_requantize
from codesign.ops.qnn import sum_pool2d as qnn_sum_pool2d
from codesign.ops.refused import why_refused

_ROWS: Final = (
    *unary.OPERATORS,
    *binary.OPERATORS,
    cast.OPERATOR,
    clip.OPERATOR,
    *reduce.OPERATORS,
    reshape.OPERATOR,
    transpose.OPERATOR,
    concatenate.OPERATOR,
    split.OPERATOR,
    strided_slice.OPERATOR,
    broadcast_to.OPERATOR,
    *indexing.OPERATORS,
    *filled.OPERATORS,
    *fast.OPERATORS,
    *expand_dims.OPERATORS,
    *collapse_sum.OPERATORS,
    one_hot.OPERATOR,
    *like.OPERATORS,
    layout_transform.OPERATOR,
    *repeating.OPERATORS,
    *counting.OPERATORS,
    *dynamic.OPERATORS,
    resize2d.OPERATOR,
    conv2d.OPERATOR,
    conv2d_transpose.OPERATOR,
    *dense.OPERATORS,
    batch_matmul.OPERATOR,
    bias_add.OPERATOR,
    batch_norm.OPERATOR,
    *normalization.OPERATORS,
    dropout.OPERATOR,
    *pool2d.OPERATORS,
    *softmax.OPERATORS,
    *cross_entropy.OPERATORS,
    *activations.OPERATORS,
    pad.OPERATOR,
    *qnn_quantize.OPERATORS,
    qnn_conv2d.OPERATOR,
    qnn_dense.OPERATOR,
    qnn_matmul.OPERATOR,
    qnn_requantize.OPERATOR,
    qnn_lookup.OPERATOR,
    qnn_add.OPERATOR,
    qnn_multiply.OPERATOR,
    qnn_sum_pool2d.OPERATOR,
    *arithmetic.OPERATORS,
    *reductions.OPERATORS,
    *blocks.OPERATORS,
    *scatter.OPERATORS,
    *ordering.OPERATORS,
    *moving.OPERATORS,
    *places.OPERATORS,
    *sequences.OPERATORS,
    *lines.OPERATORS,
    *volumes.OPERATORS,
    *layers.OPERATORS,
    *told.OPERATORS,
)


def _with_gradient(row: Operator) -> Operator:
    if row.name in GRADIENTS:
        return replace(row, gradient=GRADIENTS[row.name])
    return row if row.expansion is None else replace(row, gradient=ThroughExpansion())


OPERATORS: Final[Mapping[str, Operator]] = MappingProxyType(
    {row.name: _with_gradient(row) for row in _ROWS}
)
"""Every operator by name."""

assert len(OPERATORS) == len(_ROWS), "two operators have one name"


def operator(name: str, span: Span | None = None) -> Operator:
    """Return the operator of this name; refuse an unknown one and name those that are close.

    Raises
    ------
    CodesignError
        No operator has this name.
    """
    if name in OPERATORS:
        return OPERATORS[name]
    close = get_close_matches(name, OPERATORS)
    advice = why_refused(name) or (f"there is {' and '.join(close)}" if close else None)
    raise CodesignError(Problem(what=f"no operator is named {name!r}", span=span, help=advice))


def default_attrs(record: Operator) -> Attrs | None:
    """Return the operator's attributes where every one has a default, else None."""
    if record.attrs is None or any(
        field.default is MISSING and field.default_factory is MISSING
        for field in fields(record.attrs)
    ):
        return None
    return record.attrs()


def call(name: str, *args: Expr, attrs: Attrs | None = None, span: Span | None = None) -> Call:
    """Return a call of an operator; without `attrs` it has the default ones, if there are any.

    Raises
    ------
    CodesignError
        No operator has this name, or it needs attributes of another kind.
    """
    record = operator(name, span)
    given = default_attrs(record) if attrs is None else attrs
    if type(given) is not (record.attrs or type(None)):
        expected = "no attributes" if record.attrs is None else record.attrs.__name__
        found = "none" if given is None else type(given).__name__
        what = f"{name} has the wrong attributes"
        raise CodesignError(
            Problem(what=what, found=f"found {found}, expected {expected}", span=span)
        )
    return Call(OpRef(name, span), args, given, span)
