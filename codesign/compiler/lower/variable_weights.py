"""Products and convolutions whose weight is computed, as in training: loops that run in vectors.

nn.dense(x, w)    becomes  nn.matmul(x, transpose(w)), whose columns lie side by side
nn.conv2d(x, w)   becomes  a convolution of padded data, where rows of the result are long, else
a product of the weight with the patches that its window meets
nn.conv2d_transpose(x, w)  becomes a convolution of spread data with the mirrored weight
qnn.matmul(x, y)  becomes  nn.matmul in floating point that is wide enough to be exact
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from codesign.compiler.lower.graph import Step, Value
from codesign.compiler.lower.movement import DilateAttrs, PatchesAttrs, SliceAttrs
from codesign.compiler.lower.quantized import FLOAT_BITS
from codesign.compiler.lower.rule import attrs_of
from codesign.compiler.lower.shaping import Writer
from codesign.dtypes import DType
from codesign.ops.cast import CastAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.qnn.matmul import QMatmulAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.transpose import TransposeAttrs

_VECTOR: Final = 8
"""Rows of at least so many elements run in vectors."""

_FEW_ROWS: Final = 4
"""A product of fewer rows reads its weight once: transposing that first does not pay."""


def dense(writer: Writer, step: Step) -> Value | None:
    """Return a product with the transposed weight; None where the plain rule does as well."""
    data, weight = step.inputs
    if weight.constant is not None or not data.dtype.is_float or 0 in data.shape:
        return None
    if prod(data.shape[:-1]) < _FEW_ROWS or len(data.shape) < 2:
        return None
    columns = _transposed(writer, weight, (1, 0))
    return writer.call("nn.matmul", (data, columns), step.result)


def integer_product(writer: Writer, step: Step) -> Value:
    """Return the int32 product of codes less their zero points."""
    attrs = attrs_of(step, QMatmulAttrs)
    greatest = greatest_sum(step)
    kind = DType.FLOAT32 if greatest <= 1 << FLOAT_BITS else DType.FLOAT64
    sides = zip(step.inputs, (attrs.lhs_zero_point, attrs.rhs_zero_point), strict=True)
    left, right = (_centred(writer, codes, zero_point, kind) for codes, zero_point in sides)
    made = writer.call("nn.matmul", (left, right), Value(step.result.shape, kind))
    if greatest > DType.INT32.maximum:
        wide = Value(step.result.shape, DType.INT64)
        made = writer.call("cast", (made,), wide, CastAttrs(dtype=DType.INT64))
    return writer.call("cast", (made,), step.result, CastAttrs(dtype=DType.INT32))


def greatest_sum(step: Step) -> int:
    """Return what sums of a product of codes stay within."""
    attrs = attrs_of(step, QMatmulAttrs)
    reach = (128 + abs(attrs.lhs_zero_point)) * (128 + abs(attrs.rhs_zero_point))
    return step.inputs[0].shape[-1] * reach


def _centred(writer: Writer, codes: Value, zero_point: int, kind: DType) -> Value:
    """Return codes less their zero point in floating point."""
    like = Value(codes.shape, kind)
    wide = writer.call("cast", (codes,), like, CastAttrs(dtype=kind))
    if not zero_point:
        return wide
    number = np.array(zero_point, kind.numpy)
    return writer.call("subtract", (wide, Value((), kind, number)), like)


def conv2d(writer: Writer, step: Step) -> Value | None:
    """Return the convolution without padding or as a product; None where its rule is needed."""
    data, weight = step.inputs
    attrs = attrs_of(step, Conv2DAttrs)
    shapes = (*data.shape, *weight.shape, *step.result.shape)
    if weight.constant is not None or 0 in shapes:
        return None
    if attrs.groups > 1:
        return _in_rows(writer, data, weight, step.result, attrs)
    return _convolved(writer, data, weight, step.result, attrs)


def conv2d_transpose(writer: Writer, step: Step) -> Value | None:
    """Return the convolution that it is the transpose of; None where its rule is needed."""
    data, weight = step.inputs
    attrs = attrs_of(step, Conv2DTransposeAttrs)
    if attrs.groups != 1 or 0 in (*data.shape, *weight.shape, *step.result.shape):
        return None
    if attrs.strides != (1, 1):
        spread = tuple((data.shape[i + 2] - 1) * attrs.strides[i] + 1 for i in (0, 1))
        wide = Value((*data.shape[:2], *spread), data.dtype)
        data = writer.call("cpu.dilate", (data,), wide, DilateAttrs(strides=attrs.strides))
    turned = _transposed(writer, weight, (1, 0, 2, 3))
    rows, columns = weight.shape[2:]
    mirror = SliceAttrs(begin=(0, 0, rows - 1, columns - 1), step=(1, 1, -1, -1))
    turned = writer.call("cpu.slice", (turned,), turned, mirror)
    top, left, bottom, right = attrs.padding
    down = (rows - 1) * attrs.dilation[0]
    across = (columns - 1) * attrs.dilation[1]
    padding = (
        down - top,
        across - left,
        down - bottom + attrs.output_padding[0],
        across - right + attrs.output_padding[1],
    )
    direct = Conv2DAttrs(padding=padding, dilation=attrs.dilation)
    return _convolved(writer, data, turned, step.result, direct)


def _in_rows(
    writer: Writer, data: Value, weight: Value, result: Value, attrs: Conv2DAttrs
) -> Value | None:
    """Return the convolution of padded data; None where rows are too short for vectors."""
    if result.shape[3] < _VECTOR or attrs.strides[1] != 1:
        return None
    padded = _padded(writer, data, attrs)
    plain = Conv2DAttrs(strides=attrs.strides, dilation=attrs.dilation, groups=attrs.groups)
    return writer.call("nn.conv2d", (padded, weight), result, plain)


def _convolved(
    writer: Writer, data: Value, weight: Value, result: Value, attrs: Conv2DAttrs
) -> Value:
    direct = _in_rows(writer, data, weight, result, attrs)
    if direct is not None:
        return direct
    padded = _padded(writer, data, attrs)
    n, outputs, height, width = result.shape
    _, channels, rows, columns = weight.shape
    looked_at = Value((channels, rows, columns, n, height, width), data.dtype)
    steps = PatchesAttrs(strides=attrs.strides, dilation=attrs.dilation)
    patches = writer.call("cpu.patches", (padded,), looked_at, steps)
    depth = channels * rows * columns
    product = writer.call(
        "nn.matmul",
        (
            _reshaped(writer, weight, (outputs, depth)),
            _reshaped(writer, patches, (depth, n * height * width)),
        ),
        Value((outputs, n * height * width), data.dtype),
    )
    apart = _reshaped(writer, product, (outputs, n, height, width))
    return _transposed(writer, apart, (1, 0, 2, 3))


def _padded(writer: Writer, data: Value, attrs: Conv2DAttrs) -> Value:
    top, left, bottom, right = attrs.padding
    if not any(attrs.padding):
        return data
    n, channels, height, width = data.shape
    like = Value((n, channels, height + top + bottom, width + left + right), data.dtype)
    widths = ((0, 0), (0, 0), (top, bottom), (left, right))
    return writer.call("nn.pad", (data,), like, PadAttrs(pad_width=widths))


def _reshaped(writer: Writer, value: Value, shape: tuple[int, ...]) -> Value:
    like = Value(shape, value.dtype)
    return writer.call("reshape", (value,), like, ReshapeAttrs(shape=shape))


def _transposed(writer: Writer, value: Value, axes: tuple[int, ...]) -> Value:
    like = Value(tuple(value.shape[axis] for axis in axes), value.dtype)
    return writer.call("transpose", (value,), like, TransposeAttrs(axes=axes))
