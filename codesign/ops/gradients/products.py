"""Gradients of products of matrices and of convolutions: products and convolutions again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from codesign.ir.relay.expr import Expr
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.gradients.expressions import (
    collapse,
    op,
    reshape,
    static,
    tensor,
    total,
    transpose,
)
from codesign.ops.gradients.layouts import in_any_layout
from codesign.ops.gradients.movement import padded
from codesign.ops.nn.batch_matmul import BatchMatmulAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.window import Padding, Pair
from codesign.ops.operator import Forward, Gradient, NotDifferentiable


def _dense(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    data, weight = call.args
    to_data = op("nn.dense", adjoint, transpose(weight, (1, 0)))
    rows = _columns(adjoint, call.result_type)
    return to_data, op("nn.dense", rows, _columns(data, call.types[0]))


def _columns(value: Expr, type_: Type) -> Expr:
    """Return a tensor as a matrix of all its rows, transposed."""
    if len(tensor(type_).shape) != 2:
        shape = static("nn.dense", type_)
        value = reshape(value, (prod(shape[:-1]), shape[-1]))
    return transpose(value, (1, 0))


def _swapped(value: Expr, type_: Type) -> Expr:
    rank = len(tensor(type_).shape)
    return transpose(value, (*range(rank - 2), rank - 1, rank - 2))


def _matmul(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Collapse what a batch of one was broadcast to."""
    (lhs, rhs), (left, right) = call.args, call.types
    batch = tensor(call.result_type).shape[:-2]
    to_lhs = op("nn.matmul", adjoint, _swapped(rhs, right))
    to_rhs = op("nn.matmul", _swapped(lhs, left), adjoint)
    dtype = tensor(left).dtype
    found_lhs = TensorType((*batch, *tensor(left).shape[-2:]), dtype)
    found_rhs = TensorType((*batch, *tensor(right).shape[-2:]), dtype)
    return collapse(to_lhs, found_lhs, left, lhs), collapse(to_rhs, found_rhs, right, rhs)


def _batch_matmul(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, BatchMatmulAttrs), "the attributes of nn.batch_matmul"
    (lhs, rhs), (left, right) = call.args, call.types
    a, b = attrs.transpose_a, attrs.transpose_b
    to_lhs = _batched(rhs, adjoint, b, True) if a else _batched(adjoint, rhs, False, not b)
    to_rhs = _batched(adjoint, lhs, True, a) if b else _batched(lhs, adjoint, not a, False)
    batch, dtype = tensor(call.result_type).shape[:1], tensor(left).dtype
    found_lhs = TensorType((*batch, *tensor(left).shape[1:]), dtype)
    found_rhs = TensorType((*batch, *tensor(right).shape[1:]), dtype)
    return collapse(to_lhs, found_lhs, left, lhs), collapse(to_rhs, found_rhs, right, rhs)


def _batched(lhs: Expr, rhs: Expr, transpose_a: bool, transpose_b: bool) -> Expr:
    attrs = BatchMatmulAttrs(transpose_a=transpose_a, transpose_b=transpose_b)
    return op("nn.batch_matmul", lhs, rhs, attrs=attrs)


def _bias_add(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, BiasAddAttrs), "the attributes of nn.bias_add"
    rank = len(tensor(call.types[0]).shape)
    axis = attrs.axis % rank
    return adjoint, total(adjoint, [each for each in range(rank) if each != axis])


def scattered(
    value: Expr,
    weight: Expr,
    *,
    shape: Sequence[int],
    size: Pair,
    window: Conv2DAttrs,
    kernel: Pair,
) -> Expr:
    """Return the transpose of a convolution: `value`, of `shape`, spread over images of `size`.

    `window` is that of the convolution from the images to `value`; its padding may be negative.
    """
    lengths = tuple(
        (shape[axis + 2] - 1) * window.strides[axis]
        + (kernel[axis] - 1) * window.dilation[axis]
        + 1
        for axis in (0, 1)
    )
    top, left, _, _ = window.padding
    more = (size[0] + top - lengths[0], size[1] + left - lengths[1])
    direct = min(window.padding) >= 0
    ends = (max(0, -more[0]), max(0, -more[1])) if direct else (0, 0)
    attrs = Conv2DTransposeAttrs(
        strides=window.strides,
        padding=(top, left, *ends) if direct else (0, 0, 0, 0),
        output_padding=(max(0, more[0]), max(0, more[1])) if direct else (0, 0),
        dilation=window.dilation,
        groups=window.groups,
    )
    whole = op("nn.conv2d_transpose", value, weight, attrs=attrs)
    if direct:
        return whole
    return padded(whole, ((0, 0), (0, 0), (-top, more[0]), (-left, more[1])))


def _kernel_adjoint(
    images: Expr,
    image_type: tuple[int, ...],
    adjoint: Expr,
    adjoint_type: tuple[int, ...],
    window: Conv2DAttrs,
    kernel: Pair,
) -> Expr:
    """Return the adjoint of a convolution's weight (out, in / groups, rows, columns).

    It is a convolution of the images with the adjoint, where the batch is what is summed over and
    strides and dilation change places: data (in / groups, groups * n, h, w), weight (out, n, …).
    """
    n, channels, height, width = image_type
    groups = window.groups
    per_group = channels // groups
    if groups > 1:
        apart = reshape(images, (n, groups, per_group, height, width))
        data = reshape(transpose(apart, (2, 1, 0, 3, 4)), (per_group, groups * n, height, width))
    else:
        data = transpose(images, (1, 0, 2, 3))
    reach = tuple(
        (kernel[axis] - 1) * window.dilation[axis]
        + (adjoint_type[axis + 2] - 1) * window.strides[axis]
        + 1
        for axis in (0, 1)
    )
    top, left, _, _ = window.padding
    padding: Padding = (top, left, reach[0] - height - top, reach[1] - width - left)
    attrs = Conv2DAttrs(
        strides=window.dilation, padding=padding, dilation=window.strides, groups=groups
    )
    product = op("nn.conv2d", data, transpose(adjoint, (1, 0, 2, 3)), attrs=attrs)
    return transpose(product, (1, 0, 2, 3))


def _conv2d(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    attrs = call.attrs
    assert isinstance(attrs, Conv2DAttrs), "the attributes of nn.conv2d"
    data, weight = call.args
    images, kernels = (static("nn.conv2d", each) for each in call.types)
    results = static("nn.conv2d", call.result_type)
    kernel = (kernels[2], kernels[3])
    to_data = scattered(
        adjoint, weight, shape=results, size=(images[2], images[3]), window=attrs, kernel=kernel
    )
    return to_data, _kernel_adjoint(data, images, adjoint, results, attrs, kernel)


def _conv2d_transpose(call: Forward, adjoint: Expr) -> tuple[Expr | None, ...]:
    """Convolve the adjoint: the operator is the transpose of that convolution."""
    attrs = call.attrs
    assert isinstance(attrs, Conv2DTransposeAttrs), "the attributes of nn.conv2d_transpose"
    data, weight = call.args
    images, kernels = (static("nn.conv2d_transpose", each) for each in call.types)
    results = static("nn.conv2d_transpose", call.result_type)
    kernel = (kernels[2], kernels[3])
    top, left, bottom, right = attrs.padding
    window = Conv2DAttrs(
        strides=attrs.strides,
        padding=(top, left, bottom - attrs.output_padding[0], right - attrs.output_padding[1]),
        dilation=attrs.dilation,
        groups=attrs.groups,
    )
    to_data = op("nn.conv2d", adjoint, weight, attrs=window)
    return to_data, _kernel_adjoint(adjoint, results, data, images, window, kernel)


GRADIENTS: Final[Mapping[str, Gradient | NotDifferentiable]] = {
    "nn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _batch_matmul,
    "nn.bias_add": _bias_add,
    "nn.conv2d": in_any_layout(_conv2d),
    "nn.conv2d_transpose": _conv2d_transpose,
}
"""The rule of every operator of this kind."""
