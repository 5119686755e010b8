"""Calls of operators that give a wanted tensor type: arguments and attributes found backwards.

A proposal names an operator, the types of its arguments and its attributes. The operator's own type
relation decides whether it gives the wanted type, so that a proposal may guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias, final

from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.expr import Attrs, Call, Expr, OpRef, Project
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.cast import CastAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.split import SplitAttrs
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.table import OPERATORS, call, default_attrs
from codesign.ops.transpose import TransposeAttrs
from experiments.laws.draw import DTYPES, Draw

_NAMES: Final = tuple(sorted(OPERATORS))

REFUSING: Final = frozenset(
    {"divide", "take", "gather_elements", "gather_nd"}
    | {name for name, record in OPERATORS.items() if record.refuses}
)
"""Operators that may refuse values of the right type; they are proposed with values that fit."""


@final
@dataclass(frozen=True, slots=True)
class Proposal:
    """A call that should give the wanted type; of a tuple the field with this index."""

    name: str
    args: tuple[Type, ...]
    attrs: Attrs | None = None
    index: int | None = None

    def result(self) -> Type | None:
        """Return what the call gives; None where the operator refuses the types."""
        try:
            found = OPERATORS[self.name].relation(Call(OpRef(self.name), (), self.attrs), self.args)
        except CodesignError:
            return None
        if self.index is None:
            return found
        is_field = isinstance(found, TupleType) and self.index < len(found.fields)
        return found.fields[self.index] if is_field and isinstance(found, TupleType) else None


Proposer: TypeAlias = Callable[[Draw, TensorType], Proposal | None]


def propose(draw: Draw, wanted: TensorType) -> Proposal | None:
    """Return a call that gives the wanted type, or None where the guess was wrong."""
    found = draw.weighted(tuple(PROPOSERS), tuple(PROPOSERS.values()))(draw, wanted)
    return found if found is not None and found.result() == wanted else None


def convert(expr: Expr, found: Type, wanted: TensorType) -> Expr:
    """Return an expression of the wanted type that depends on a tensor or a tuple of tensors."""
    while isinstance(found, TupleType):
        expr, found = Project(expr, 0), found.fields[0]
    assert isinstance(found, TensorType), "operators give tensors"
    if found.dtype is DType.BOOL and found.shape != wanted.shape:
        expr = call("cast", expr, attrs=CastAttrs(dtype=DType.INT32))
        found = TensorType(found.shape, DType.INT32)
    if found.shape != wanted.shape:
        expr = call("sum", expr, attrs=ReduceAttrs(axis=tuple(range(len(found.shape)))))
        if wanted.shape:
            expr = call("broadcast_to", expr, attrs=BroadcastToAttrs(shape=wanted.static_shape))
    if found.dtype is not wanted.dtype:
        expr = call("cast", expr, attrs=CastAttrs(dtype=wanted.dtype))
    return expr


def _same(draw: Draw, wanted: TensorType) -> Proposal | None:
    """Guess an operator whose arguments have the type of its result."""
    name = draw.one_of(_NAMES)
    record = OPERATORS[name]
    attrs = default_attrs(record)
    if name in REFUSING or (record.attrs is not None and attrs is None):
        return None
    for count in (1, 2, 3):
        found = Proposal(name, (wanted,) * count, attrs)
        if found.result() == wanted:
            return found
    return None


def _operand_shapes(draw: Draw, shape: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """Return shapes that broadcast to a shape, at least one of them as long on each axis."""
    keeper = [draw.below(count) for _ in shape]
    shapes = []
    for index in range(count):
        dims = tuple(
            dim if keeper[axis] == index or draw.chance(0.6) else 1
            for axis, dim in enumerate(shape)
        )
        needed = next((axis for axis, dim in enumerate(dims) if dim != 1), len(dims))
        shapes.append(dims[draw.between(0, needed) :] if draw.chance(0.4) else dims)
    whole = max(shapes, key=len)
    if len(whole) < len(shape):
        shapes[0] = (*shape[: len(shape) - len(shapes[0])], *shapes[0])
    return shapes


def _binary(draw: Draw, wanted: TensorType) -> Proposal | None:
    is_logical = wanted.dtype is DType.BOOL
    names = _COMPARISONS if is_logical and draw.chance(0.8) else _ARITHMETIC
    dtype = draw.one_of(DTYPES) if names is _COMPARISONS else wanted.dtype
    left, right = _operand_shapes(draw, _static(wanted), 2)
    return Proposal(draw.one_of(names), (TensorType(left, dtype), TensorType(right, dtype)))


def _where(draw: Draw, wanted: TensorType) -> Proposal | None:
    condition, then, otherwise = _operand_shapes(draw, _static(wanted), 3)
    types = (
        TensorType(condition, DType.BOOL),
        TensorType(then, wanted.dtype),
        TensorType(otherwise, wanted.dtype),
    )
    return Proposal("where", types)


def _cast(draw: Draw, wanted: TensorType) -> Proposal | None:
    source = TensorType(wanted.shape, draw.one_of(DTYPES))
    return Proposal("cast", (source,), CastAttrs(dtype=wanted.dtype))


def _clip(draw: Draw, wanted: TensorType) -> Proposal | None:
    low, high = sorted((draw.between(-12, 12) / 4, draw.between(-12, 12) / 4))
    bounds = draw.one_of(((low, high), (float("-inf"), high), (low, float("inf")), (0.0, 6.0)))
    return Proposal("clip", (wanted,), ClipAttrs(minimum=bounds[0], maximum=bounds[1]))


def _reduce(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape, axes, keepdims = _before_reduction(draw, _static(wanted))
    name = draw.one_of(("sum", "mean", "max", "min", "prod"))
    if not axes:
        axes = tuple(range(len(shape)))
    signed = tuple(axis - len(shape) if draw.chance(0.3) else axis for axis in axes)
    attrs = ReduceAttrs(axis=signed, keepdims=keepdims)
    return Proposal(name, (TensorType(shape, wanted.dtype),), attrs)


def _before_reduction(
    draw: Draw, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Return a shape that reduces to another one, over which axes, and whether they stay."""
    if draw.chance(0.4):
        axes = tuple(axis for axis, dim in enumerate(shape) if dim == 1)
        dims = tuple(draw.between(1, 4) if axis in axes else dim for axis, dim in enumerate(shape))
        return dims, axes, True
    count = draw.between(1, 2)
    rank = len(shape) + count
    axes = tuple(sorted(draw.permutation(rank)[:count]))
    rest = iter(shape)
    dims = tuple(draw.dim() if axis in axes else next(rest) for axis in range(rank))
    return dims, axes, False


def _argmax(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape, axes, keepdims = _before_reduction(draw, _static(wanted))
    if len(axes) != 1:
        return None
    attrs = ArgReduceAttrs(
        axis=axes[0],
        keepdims=keepdims,
        select_last_index=draw.chance(0.5),
        dtype=wanted.dtype,
    )
    return Proposal("argmax", (TensorType(shape, draw.one_of(DTYPES)),), attrs)


def _reshape(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape = _static(wanted)
    total = prod(shape)
    permuted = tuple(shape[axis] for axis in draw.permutation(len(shape)))
    source = draw.one_of(((total,), permuted, (*shape, 1), (1, *permuted), (total, 1)))
    target = list(shape)
    if shape and total and draw.chance(0.4):
        target[draw.below(len(target))] = -1
    return Proposal(
        "reshape", (TensorType(source, wanted.dtype),), ReshapeAttrs(shape=tuple(target))
    )


def _transpose(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape = _static(wanted)
    axes = draw.permutation(len(shape))
    if draw.chance(0.2):
        return Proposal("transpose", (TensorType(shape[::-1], wanted.dtype),), TransposeAttrs())
    source = [0] * len(shape)
    for index, axis in enumerate(axes):
        source[axis] = shape[index]
    return Proposal(
        "transpose", (TensorType(tuple(source), wanted.dtype),), TransposeAttrs(axes=axes)
    )


def _concatenate(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape = _static(wanted)
    if not shape:
        return None
    axis = draw.below(len(shape))
    lengths = draw.parts(shape[axis], draw.between(1, 3))
    fields = tuple(
        TensorType((*shape[:axis], length, *shape[axis + 1 :]), wanted.dtype) for length in lengths
    )
    shown = axis - len(shape) if draw.chance(0.4) else axis
    return Proposal("concatenate", (TupleType(fields),), AxisAttrs(axis=shown))


def _split(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape = _static(wanted)
    if not shape:
        return None
    axis, count = draw.below(len(shape)), draw.between(1, 3)
    index = draw.below(count)
    if draw.chance(0.5):
        length, where = shape[axis] * count, count
        source = (*shape[:axis], length, *shape[axis + 1 :])
        attrs = SplitAttrs(indices_or_sections=where, axis=axis)
    else:
        lengths = [shape[axis] if each == index else draw.dim() for each in range(count)]
        places = tuple(sum(lengths[: each + 1]) for each in range(count - 1))
        source = (*shape[:axis], sum(lengths), *shape[axis + 1 :])
        attrs = SplitAttrs(indices_or_sections=places, axis=axis - len(shape))
    return Proposal("split", (TensorType(source, wanted.dtype),), attrs, index)


def _strided_slice(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape = _static(wanted)
    if not shape:
        return None
    axis, stride = draw.below(len(shape)), draw.one_of((1, 1, 2, -1, -2))
    dim, before, after = shape[axis], draw.between(0, 2), draw.between(0, 2)
    covered = (dim - 1) * abs(stride) + 1 if dim else 0
    length = before + covered + after
    if stride > 0:
        begin, end = before, before + covered
    else:
        begin = before + covered - 1
        end = before - 1 if before else -length - 1
    if dim == 0:
        begin = end = before
    attrs = StridedSliceAttrs(begin=(begin,), end=(end,), strides=(stride,), axes=(axis,))
    source = (*shape[:axis], length, *shape[axis + 1 :])
    return Proposal("strided_slice", (TensorType(source, wanted.dtype),), attrs)


def _broadcast_to(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape = _static(wanted)
    source = _operand_shapes(draw, shape, 2)[0]
    attrs = BroadcastToAttrs(shape=shape)
    return Proposal("broadcast_to", (TensorType(source, wanted.dtype),), attrs)


def _dense(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape = _static(wanted)
    if len(shape) < 2:
        return None
    inner = draw.dim()
    left: tuple[int, ...]
    right: tuple[int, ...]
    if draw.chance(0.6):
        left, right, name = (*shape[:-1], inner), (shape[-1], inner), "nn.dense"
    else:
        left, right, name = (*shape[:-1], inner), (inner, shape[-1]), "nn.matmul"
        if draw.chance(0.4):
            right = (*shape[:-2], *right)
    return Proposal(name, (TensorType(left, wanted.dtype), TensorType(right, wanted.dtype)))


def _bias_add(draw: Draw, wanted: TensorType) -> Proposal | None:
    shape = _static(wanted)
    if not shape:
        return None
    axis = draw.below(len(shape))
    bias = TensorType((shape[axis],), wanted.dtype)
    return Proposal("nn.bias_add", (wanted, bias), BiasAddAttrs(axis=axis))


def _along_axis(draw: Draw, wanted: TensorType) -> Proposal | None:
    if not wanted.shape:
        return None
    axis = draw.between(-len(wanted.shape), len(wanted.shape) - 1)
    name = draw.one_of(("nn.softmax", "nn.log_softmax"))
    return Proposal(name, (wanted,), AxisAttrs(axis=axis))


def _static(type_: TensorType) -> tuple[int, ...]:
    return type_.static_shape


_ARITHMETIC: Final = (
    *("add", "subtract", "multiply", "maximum", "minimum"),
    *("add", "subtract", "multiply", "power", "logical_and", "logical_or"),
)
_COMPARISONS: Final = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")

PROPOSERS: Final[dict[Proposer, int]] = {
    _same: 12,
    _binary: 14,
    _where: 3,
    _cast: 4,
    _clip: 2,
    _reduce: 4,
    _argmax: 1,
    _reshape: 3,
    _transpose: 2,
    _concatenate: 3,
    _split: 2,
    _strided_slice: 2,
    _broadcast_to: 2,
    _dense: 3,
    _bias_add: 2,
    _along_axis: 2,
}
