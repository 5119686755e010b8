"""Layers that simpler ones say.

    nn.adaptive_avg_pool2d(%x, output_size=[3, 3])     over one and three axes too
    nn.adaptive_max_pool2d(%x, output_size=[3, 3])
    nn.upsampling(%x, scale_h=2.0, scale_w=2.0, method="nearest_neighbor")
    nn.lrn(%x, size=5, axis=1, bias=2.0, alpha=1e-5, beta=0.75)
    nn.nll_loss(%predictions, %targets, %weights, reduction="mean", ignore_index=-100)

Window i of o adaptive ones over n elements reaches from floor(i n / o) to ceil((i + 1) n / o).
nn.upsampling takes the place floor(x / scale), or with `bilinear` x * size / new_size, with
`align_corners` x * (size - 1) / (new_size - 1). nn.lrn divides by (bias + alpha / size * the sum
of squares over `size` neighbours along the axis) ** beta. nn.nll_loss is the sum, the mean by
weight or each of -weight[target] * prediction[target]; classes lie on axis 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor
from typing import Final, Literal, TypeAlias, final

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Expr
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.axis import AxisAttrs
from codesign.ops.composed.pieces import attrs_of, composed, constant, known_shape, pad, piece, take
from codesign.ops.expand_dims import SqueezeAttrs
from codesign.ops.gradients.expressions import (
    add,
    cast,
    divide,
    expand_dims,
    multiply,
    negative,
    number,
    op,
    tensor,
    total,
    where,
)
from codesign.ops.image.resize2d import ResizeAttrs
from codesign.ops.numeric import ieee
from codesign.ops.operator import Expansion, Operator, Reference, Relation
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.relations import (
    FLOATS,
    INTEGERS,
    attributes,
    mistake,
    normal_axis,
    per_element,
    per_input_element,
    require_dtype,
    require_positive,
    require_rank,
    require_same_dtype,
    require_shape,
    static_tensors,
)


@final
@dataclass(frozen=True, kw_only=True)
class AdaptivePoolAttrs(Attrs):
    """How many windows there are along each axis of space; one number for all, none: as many."""

    output_size: tuple[int, ...] = ()


@final
@dataclass(frozen=True, kw_only=True)
class UpSamplingAttrs(Attrs):
    """By how much height and width grow, and how elements are found."""

    scale_h: float = 1.0
    scale_w: float = 1.0
    method: Literal["nearest_neighbor", "bilinear"] = "nearest_neighbor"
    align_corners: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class LRNAttrs(Attrs):
    """How many neighbours, an odd number, and the numbers of the formula."""

    size: int = 5
    axis: int = 1
    bias: float = 2.0
    alpha: float = 1e-5
    beta: float = 0.75


@final
@dataclass(frozen=True, kw_only=True)
class NLLLossAttrs(Attrs):
    """How losses are joined, and the target that counts nothing."""

    reduction: Literal["mean", "sum", "none"] = "mean"
    ignore_index: int = -100


# --- adaptive pools -----------------------------------------------------------------------------

Span: TypeAlias = tuple[int, int]


def _spans(size: int, count: int) -> list[Span]:
    """Return where each window begins and ends."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _sizes(attrs: AdaptivePoolAttrs, space: tuple[int, ...]) -> tuple[int, ...]:
    if not attrs.output_size:
        return space
    return attrs.output_size if len(attrs.output_size) > 1 else attrs.output_size * len(space)


def _adaptive_relation(axes: int) -> Relation:
    def relation(call: Call, types: tuple[Type, ...]) -> Type:
        (data,) = static_tensors(call, types, 1)
        attrs = attributes(call, AdaptivePoolAttrs)
        require_rank(call, data, axes + 2, "data")
        require_dtype(call, data, FLOATS, "data")
        require_positive(call, attrs.output_size, "output size")
        space = data.static_shape[2:]
        sizes = _sizes(attrs, space)
        if len(sizes) != axes:
            raise mistake(call, "needs a size for each axis of space", f"found {list(sizes)}")
        if 0 in space:
            raise mistake(call, "has no value over an empty axis", f"shape {list(data.shape)}")
        return TensorType((*data.static_shape[:2], *sizes), data.dtype)

    return relation


def _adaptive_reference(join: Callable[..., Array]) -> Reference:
    @ieee
    def reference(data: Array, attrs: AdaptivePoolAttrs) -> Array:
        sizes = _sizes(attrs, data.shape[2:])
        spans = [_spans(n, count) for n, count in zip(data.shape[2:], sizes, strict=True)]
        result = np.empty((*data.shape[:2], *sizes))
        for place in np.ndindex(*sizes):
            inside = tuple(slice(*spans[axis][i]) for axis, i in enumerate(place))
            window = data[(slice(None), slice(None), *inside)].astype(np.float64)
            result[:, :, *place] = join(window, axis=tuple(range(2, data.ndim)))
        return result.astype(data.dtype)

    return reference


def _expand_adaptive(call: Call, types: tuple[Type, ...], *, is_max: bool) -> Expr:
    (value,) = call.args
    shape, dtype = list(known_shape(call, types[0])), tensor(types[0]).dtype
    sizes = _sizes(attrs_of(call, AdaptivePoolAttrs), tuple(shape[2:]))
    for axis, count in enumerate(sizes, start=2):
        spans = _spans(shape[axis], count)
        longest = max(end - begin for begin, end in spans)
        table = [[min(begin + i, end - 1) for i in range(longest)] for begin, end in spans]
        seen = take(value, constant(table, DType.INT64), axis)
        shape[axis] = count
        if is_max:
            value = op("max", seen, attrs=ReduceAttrs(axis=(axis + 1,)))
            continue
        behind = (1,) * (len(shape) - axis - 1)
        lengths = np.array([end - begin for begin, end in spans])
        inside = np.arange(longest) < lengths[:, None]
        mask = constant(inside.reshape(count, longest, *behind), DType.BOOL)
        summed = total(where(mask, seen, number(0, types[0])), (axis + 1,))
        value = divide(summed, constant(lengths.reshape(count, *behind), dtype))
    return value


def _expand_adaptive_max(call: Call, types: tuple[Type, ...]) -> Expr:
    return _expand_adaptive(call, types, is_max=True)


def _expand_adaptive_avg(call: Call, types: tuple[Type, ...]) -> Expr:
    return _expand_adaptive(call, types, is_max=False)


def _adaptive(name: str, axes: int, join: Callable[..., Array], expand: Expansion) -> Operator:
    return composed(
        name,
        _adaptive_relation(axes),
        _adaptive_reference(join),
        expand,
        AdaptivePoolAttrs,
        work=per_input_element(1),
    )


# --- upsampling ---------------------------------------------------------------------------------


def _new_sizes(attrs: UpSamplingAttrs, height: int, width: int) -> tuple[int, int]:
    return floor(height * attrs.scale_h + 0.5), floor(width * attrs.scale_w + 0.5)


def _upsampling_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, UpSamplingAttrs)
    require_rank(call, data, 4, "data")
    require_dtype(call, data, FLOATS, "data")
    scales = (attrs.scale_h, attrs.scale_w)
    if not all(0 < each < np.inf for each in scales) or 0 in data.static_shape[2:]:
        raise mistake(call, "needs scales above 0 and elements", f"{scales}, {list(data.shape)}")
    n, channels, height, width = data.static_shape
    sizes = _new_sizes(attrs, height, width)
    if min(sizes) < 1:
        raise mistake(call, "leaves no elements", f"{list(data.shape)} by {scales}")
    return TensorType((n, channels, *sizes), data.dtype)


def _upsampling(data: Array, attrs: UpSamplingAttrs) -> Array:
    result = data.astype(np.float64)
    for axis, new in zip((2, 3), _new_sizes(attrs, *data.shape[2:]), strict=True):
        size = data.shape[axis]
        steps = np.arange(new)
        if attrs.method == "bilinear" and attrs.align_corners:
            found = steps * (size - 1) / max(new - 1, 1)
        else:
            found = steps * size / new
        low = np.minimum(np.floor(found).astype(int), size - 1)
        if attrs.method == "nearest_neighbor":
            result = np.take(result, low, axis=axis)
            continue
        high = np.minimum(low + 1, size - 1)
        share = np.reshape(np.minimum(found, size - 1) - low, (-1,) + (1,) * (3 - axis))
        upper, lower = np.take(result, high, axis=axis), np.take(result, low, axis=axis)
        result = lower + (upper - lower) * share
    return result.astype(data.dtype)


def _expand_upsampling(call: Call, types: tuple[Type, ...]) -> Expr:
    attrs, shape = attrs_of(call, UpSamplingAttrs), tensor(types[0]).shape
    height, width = known_shape(call, TensorType(shape[2:], DType.FLOAT32))
    is_nearest = attrs.method == "nearest_neighbor"
    by_corners = attrs.align_corners and not is_nearest
    resize = ResizeAttrs(
        size=_new_sizes(attrs, height, width),
        method="nearest_neighbor" if is_nearest else "linear",
        coordinate_transformation_mode="align_corners" if by_corners else "asymmetric",
        rounding_method="floor",
    )
    return op("image.resize2d", *call.args, attrs=resize)


# --- normalization by neighbours ----------------------------------------------------------------


def _lrn_relation(call: Call, types: tuple[Type, ...]) -> Type:
    (data,) = static_tensors(call, types, 1)
    attrs = attributes(call, LRNAttrs)
    require_dtype(call, data, FLOATS, "data")
    normal_axis(call, attrs.axis, len(data.shape))
    if attrs.size < 1 or attrs.size % 2 == 0:
        raise mistake(call, "needs an odd number of neighbours", f"found {attrs.size}")
    return data


@ieee
def _lrn(data: Array, attrs: LRNAttrs) -> Array:
    rows = np.moveaxis(data.astype(np.float64), attrs.axis, 0)
    result = np.empty_like(rows)
    for place in range(len(rows)):
        half = attrs.size // 2
        near = rows[max(place - half, 0) : place + half + 1]
        base = attrs.bias + attrs.alpha / attrs.size * np.sum(near * near, axis=0)
        result[place] = rows[place] / base**attrs.beta
    return np.ascontiguousarray(np.moveaxis(result, 0, attrs.axis)).astype(data.dtype)


def _expand_lrn(call: Call, types: tuple[Type, ...]) -> Expr:
    (data,) = call.args
    attrs, type_ = attrs_of(call, LRNAttrs), tensor(types[0])
    rank = len(type_.shape)
    axis, half = attrs.axis % rank, attrs.size // 2
    (length,) = known_shape(call, TensorType((type_.shape[axis],), DType.INT64))
    widths = [(half, half) if each == axis else (0, 0) for each in range(rank)]
    wide = pad(multiply(data, data), widths)
    near: Expr = piece(wide, axis, 0, length)
    for begin in range(1, attrs.size):
        near = add(near, piece(wide, axis, begin, begin + length))
    scaled = multiply(near, number(attrs.alpha / attrs.size, type_))
    base = add(scaled, number(attrs.bias, type_))
    return divide(data, op("power", base, number(attrs.beta, type_)))


# --- loss ---------------------------------------------------------------------------------------


def _loss_relation(call: Call, types: tuple[Type, ...]) -> Type:
    predictions, targets, weights = static_tensors(call, types, 3)
    attrs = attributes(call, NLLLossAttrs)
    require_dtype(call, predictions, FLOATS, "predictions")
    require_dtype(call, targets, INTEGERS, "targets")
    require_same_dtype(call, (predictions, weights))
    if len(predictions.shape) < 2:
        raise mistake(call, "takes predictions of classes on axis 1", "there is no axis 1")
    n, classes, *rest = predictions.static_shape
    require_shape(call, targets, (n, *rest), "targets")
    require_shape(call, weights, (classes,), "weights")
    shape = (n, *rest) if attrs.reduction == "none" else ()
    return TensorType(shape, predictions.dtype)


@ieee
def _loss(predictions: Array, targets: Array, weights: Array, attrs: NLLLossAttrs) -> Array:
    losses, counted = np.zeros(targets.shape), 0.0
    classes = len(weights)
    for at in np.ndindex(*targets.shape):
        target = int(targets[at])
        if target == attrs.ignore_index:
            continue
        if not -classes <= target < classes:
            raise CodesignError.of(
                "nn.nll_loss has a target that is no class",
                found=f"target {target} of {classes} classes",
            )
        losses[at] = -float(weights[target]) * float(predictions[at[0], target, *at[1:]])
        counted += float(weights[target])
    whole = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / np.float64(counted)}
    return np.asarray(whole[attrs.reduction]).astype(predictions.dtype)


def _expand_loss(call: Call, types: tuple[Type, ...]) -> Expr:
    predictions, targets, weights = call.args
    attrs, type_ = attrs_of(call, NLLLossAttrs), tensor(types[0])
    wide = cast(targets, DType.INT64)
    counts = op("not_equal", wide, constant(attrs.ignore_index, DType.INT64))
    place = where(counts, wide, constant(0, DType.INT64))
    chosen = op("gather_elements", predictions, expand_dims(place, 1), attrs=AxisAttrs(axis=1))
    values = op("squeeze", chosen, attrs=SqueezeAttrs(axis=(1,)))
    shares = where(counts, take(weights, place, 0), number(0, type_))
    losses = negative(multiply(shares, values))
    if attrs.reduction == "none":
        return losses
    axes = tuple(range(len(type_.shape) - 1))
    summed = total(losses, axes)
    return summed if attrs.reduction == "sum" else divide(summed, total(shares, axes))


OPERATORS: Final = (
    _adaptive("nn.adaptive_avg_pool1d", 1, np.mean, _expand_adaptive_avg),
    _adaptive("nn.adaptive_avg_pool2d", 2, np.mean, _expand_adaptive_avg),
    _adaptive("nn.adaptive_avg_pool3d", 3, np.mean, _expand_adaptive_avg),
    _adaptive("nn.adaptive_max_pool1d", 1, np.max, _expand_adaptive_max),
    _adaptive("nn.adaptive_max_pool2d", 2, np.max, _expand_adaptive_max),
    _adaptive("nn.adaptive_max_pool3d", 3, np.max, _expand_adaptive_max),
    composed(
        "nn.upsampling",
        _upsampling_relation,
        _upsampling,
        _expand_upsampling,
        UpSamplingAttrs,
        work=per_element(6),
    ),
    composed("nn.lrn", _lrn_relation, _lrn, _expand_lrn, LRNAttrs, work=per_element(9)),
    composed("nn.nll_loss", _loss_relation, _loss, _expand_loss, NLLLossAttrs, refuses=True),
)
"""Every operator of this file."""
