"""Graph to graph: operators that are best said by simpler ones, and what constants make simpler.

    softmax(x)  becomes  e = exp(x - max x); e / sum e
    mean, argmax, split, resize, averages of pools, transposed convolutions with known weights, …

Names that begin with `cpu.` exist between here and the rules only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import numpy as np

from codesign.compiler.lower import half, shaping, variable_weights
from codesign.compiler.lower.graph import Check, Graph, Step, Value
from codesign.compiler.lower.movement import DilateAttrs, SliceAttrs
from codesign.compiler.lower.quantized import DOUBLE_BITS, NARROW_BITS, ExactScaleAttrs
from codesign.compiler.lower.rule import attrs_of
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs
from codesign.ops.axis import AxisAttrs
from codesign.ops.cast import CastAttrs
from codesign.ops.image.resize2d import ResizeAttrs, nearest, source_places
from codesign.ops.nn.batch_norm import BatchNormAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.qnn.sum_pool2d import QSumPool2DAttrs
from codesign.ops.reduce import ArgReduceAttrs, ReduceAttrs
from codesign.ops.table import operator

_FOLD_LIMIT: Final = 1 << 24
"""Elements up to which a call of constants is evaluated."""


def legalize(graph: Graph) -> Graph:
    """Return an equal graph of operators that have rules."""
    writer = _Writer(graph)
    for step in graph.steps:
        writer.write(step)
    outputs = tuple(writer.known.get(value, value) for value in graph.outputs)
    return Graph(graph.inputs, tuple(writer.steps), outputs, tuple(writer.checks))


def constant_of(array: Array) -> Value:
    """Return an array as a value."""
    return Value(array.shape, DType.of(array.dtype), array)


@final
class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.steps: list[Step] = []
        self.checks: list[Check] = []
        self.known: dict[Value, Value] = {}
        self.magnitude: dict[Value, int] = {}
        self._source: Step = Step("", None, (), Value((), DType.BOOL))

    def write(self, step: Step) -> None:
        inputs = tuple(self.known.get(value, value) for value in step.inputs)
        step = Step(step.operator, step.attrs, inputs, step.result, step.span, step.field)
        self._source = step
        is_known = all(value.constant is not None for value in inputs)
        if inputs and is_known and step.operator != "full":
            size = int(np.prod(step.result.shape))
            if size <= _FOLD_LIMIT:
                self.known[step.result] = _evaluated(step)
                return
        result = shaping.in_plain_layout(self, step) or half.in_single(self, step)
        rewrite = _REWRITES.get(step.operator)
        if result is None and rewrite is not None:
            result = rewrite(self, step)
        if result is None:
            self._note_magnitude(step)
            self.steps.append(step)
        else:
            self.known[step.result] = result

    def call(
        self, name: str, inputs: tuple[Value, ...], like: Value, attrs: Attrs | None = None
    ) -> Value:
        """Append a step whose result has the shape and type of `like`; reshape constants here.

        A reshape is another view of what it reads, and constants have one place.
        """
        if name == "reshape" and inputs[0].constant is not None:
            return Value(like.shape, like.dtype, inputs[0].constant.reshape(like.shape))
        result = Value(like.shape, like.dtype)
        self.steps.append(Step(name, attrs, inputs, result, self._source.span))
        return result

    def legal_call(
        self, name: str, inputs: tuple[Value, ...], like: Value, attrs: Attrs | None = None
    ) -> Value:
        """Append what a step becomes whose result has the shape and type of `like`."""
        source, result = self._source, Value(like.shape, like.dtype)
        self.write(Step(name, attrs, inputs, result, source.span))
        self._source = source
        return self.known.get(result, result)

    def require(self, flags: Value, mistake: str) -> None:
        """Append what makes a run fail with `mistake` where any of the flags is true."""
        number = self.call(
            "cast", (flags,), Value(flags.shape, DType.INT8), CastAttrs(dtype=DType.INT8)
        )
        if 0 in flags.shape:
            return
        one = self.call("max", (number,), Value((), DType.INT8), ReduceAttrs())
        place = "" if self._source.span is None else f" ({self._source.span})"
        self.checks.append(Check(one, mistake + place))

    def _note_magnitude(self, step: Step) -> None:
        match step.operator, step.attrs:
            case (("qnn.conv2d" | "qnn.dense"), _) if step.inputs[1].constant is not None:
                weight = step.inputs[1].constant
                rows = np.abs(weight.astype(np.int64)).reshape(weight.shape[0], -1)
                most = int(rows.sum(axis=1).max(initial=0))
                reach = (1 << step.inputs[0].dtype.bits) - 1
                limit = 1 << (step.result.dtype.bits - 1)
                self.magnitude[step.result] = min(reach * most, limit)
            case "qnn.sum_pool2d", QSumPool2DAttrs(pool_size=(height, width)):
                reach = (1 << step.inputs[0].dtype.bits) - 1
                self.magnitude[step.result] = reach * height * width


def _evaluated(step: Step) -> Value:
    arrays = tuple(np.asarray(value.constant) for value in step.inputs)
    arguments = (arrays,) if step.operator in ("concatenate", "stack") else arrays
    keywords = {} if step.attrs is None else {"attrs": step.attrs}
    result: object = operator(step.operator).reference(*arguments, **keywords)
    array = result[step.field] if isinstance(result, tuple) else result
    return constant_of(np.asarray(array))


def _kept(value: Value, axis: int) -> Value:
    shape = tuple(1 if i == axis else extent for i, extent in enumerate(value.shape))
    return Value(shape, value.dtype)


def _softmax(writer: _Writer, step: Step) -> Value:
    (x,) = step.inputs
    axis = attrs_of(step, AxisAttrs).axis % len(x.shape)
    over = ReduceAttrs(axis=(axis,), keepdims=True)
    row = _kept(x, axis)
    shifted = writer.call("subtract", (x, writer.call("max", (x,), row, over)), x)
    exp = "fast_exp" if step.operator == "nn.fast_softmax" else "exp"
    power = writer.call(exp, (shifted,), x)
    total = writer.call("sum", (power,), row, over)
    if step.operator != "nn.log_softmax":
        return writer.call("divide", (power, total), x)
    return writer.call("subtract", (shifted, writer.call("log", (total,), row)), x)


def _cross_entropy(writer: _Writer, step: Step) -> Value:
    predictions, targets = step.inputs
    logarithms = predictions
    if step.operator == "nn.cross_entropy":
        logarithms = writer.call("log", (predictions,), predictions)
    terms = writer.call("multiply", (logarithms, targets), predictions)
    total = writer.call("sum", (terms,), step.result, ReduceAttrs())
    rows = constant_of(np.asarray(-predictions.shape[0], dtype=total.dtype.numpy))
    return writer.call("divide", (total, rows), step.result)


def _mean(writer: _Writer, step: Step) -> Value:
    (x,) = step.inputs
    axes = attrs_of(step, ReduceAttrs).axis or tuple(range(len(x.shape)))
    count = int(np.prod([x.shape[axis] for axis in axes]))
    total = writer.call("sum", (x,), step.result, step.attrs)
    divisor = constant_of(np.asarray(count, dtype=x.dtype.numpy))
    return writer.call("divide", (total, divisor), step.result)


def _argmax(writer: _Writer, step: Step) -> Value:
    (x,) = step.inputs
    axis = attrs_of(step, ArgReduceAttrs).axis % len(x.shape)
    over = ReduceAttrs(axis=(axis,), keepdims=True)
    greatest = writer.call("max", (x,), _kept(x, axis), over)
    return writer.call("cpu.argmax", (x, greatest), step.result, step.attrs)


def _batch_norm(writer: _Writer, step: Step) -> Value | None:
    data, *parameters = step.inputs
    if any(value.constant is None for value in parameters):
        return None
    gamma, beta, mean, variance = (
        np.asarray(value.constant, dtype=np.float64) for value in parameters
    )
    scale = gamma / np.sqrt(variance + attrs_of(step, BatchNormAttrs).epsilon)
    kind = data.dtype.numpy
    factors = (constant_of(scale.astype(kind)), constant_of((beta - mean * scale).astype(kind)))
    return writer.call("cpu.scale_shift", (data, *factors), step.result)


def _avg_pool(writer: _Writer, step: Step) -> Value:
    (data,) = step.inputs
    attrs = attrs_of(step, Pool2DAttrs)
    counts = np.outer(*(_window_counts(attrs, data, step.result, axis) for axis in (0, 1)))
    kind = step.result.dtype.numpy if step.result.dtype.is_float else np.float64
    divisors = constant_of(np.maximum(counts, 1).astype(kind))
    return writer.call("cpu.avg_pool2d", (data, divisors), step.result, attrs)


def _window_counts(attrs: Pool2DAttrs, data: Value, result: Value, axis: int) -> Array:
    """For each place along an axis, how many of a window's elements count."""
    size, before, after = data.shape[axis + 2], attrs.padding[axis], attrs.padding[axis + 2]
    low, high = (-before, size + after) if attrs.count_include_pad else (0, size)
    first = np.arange(result.shape[axis + 2]) * attrs.strides[axis] - before
    taps = first[:, None] + np.arange(attrs.pool_size[axis]) * attrs.dilation[axis]
    return np.asarray(((taps >= low) & (taps < high)).sum(axis=1))


def _conv2d_transpose(writer: _Writer, step: Step) -> Value | None:
    data, weight = step.inputs
    attrs = attrs_of(step, Conv2DTransposeAttrs)
    if weight.constant is None:
        return variable_weights.conv2d_transpose(writer, step)
    if 0 in data.shape:
        return None
    groups, (top, left, bottom, right) = attrs.groups, attrs.padding
    inputs, per_group, *size = weight.shape
    parts = weight.constant.reshape(groups, inputs // groups, per_group, *size)
    flipped = np.swapaxes(parts, 1, 2)[..., ::-1, ::-1]
    kernel = np.ascontiguousarray(flipped.reshape(groups * per_group, inputs // groups, *size))
    reach = [(extent - 1) * step_ for extent, step_ in zip(size, attrs.dilation, strict=True)]
    spread = tuple((data.shape[i + 2] - 1) * attrs.strides[i] + 1 for i in (0, 1))
    wide = data
    if attrs.strides != (1, 1):
        wide = Value((*data.shape[:2], *spread), data.dtype)
        wide = writer.call("cpu.dilate", (data,), wide, DilateAttrs(strides=attrs.strides))
    padding = (
        reach[0] - top,
        reach[1] - left,
        reach[0] - bottom + attrs.output_padding[0],
        reach[1] - right + attrs.output_padding[1],
    )
    direct = Conv2DAttrs(padding=padding, dilation=attrs.dilation, groups=groups)
    return writer.call("nn.conv2d", (wide, constant_of(kernel)), step.result, direct)


def _resize(writer: _Writer, step: Step) -> Value:
    (data,) = step.inputs
    attrs = attrs_of(step, ResizeAttrs)
    tables: list[Value] = []
    for axis, size in enumerate(data.shape[2:]):
        places = source_places(attrs, axis, size)
        if attrs.method == "nearest_neighbor":
            tables.append(constant_of(nearest(attrs, places, size)))
            continue
        held = np.clip(places, 0, size - 1)
        low = np.floor(held).astype(np.int64)
        share = (held - low).astype(data.dtype.numpy)
        tables += [constant_of(each) for each in (low, np.minimum(low + 1, size - 1), share)]
    name = "cpu.resize_nearest" if attrs.method == "nearest_neighbor" else "cpu.resize_linear"
    return writer.call(name, (data, *tables), step.result)


def _requantize(writer: _Writer, step: Step) -> Value | None:
    acc, bias, multiplier, shift = step.inputs
    attrs = attrs_of(step, RequantizeAttrs)
    if bias.constant is None or multiplier.constant is None or shift.constant is None:
        return None
    most = writer.magnitude.get(acc, 1 << 31) + int(
        np.abs(bias.constant.astype(np.int64)).max(initial=0)
    )
    largest = int(multiplier.constant.max(initial=0))
    if most.bit_length() + largest.bit_length() > DOUBLE_BITS:
        return None
    scale = np.ldexp(multiplier.constant.astype(np.float64), -shift.constant.astype(np.int32))
    exact = ExactScaleAttrs(
        axis=attrs.axis % len(acc.shape),
        zero_point=attrs.zero_point,
        minimum=attrs.minimum,
        maximum=attrs.maximum,
        dtype=attrs.dtype,
        is_narrow=bool(most * scale.max(initial=0) < 1 << NARROW_BITS),
        is_wide=most >= 1 << 31,
    )
    return writer.call("cpu.requantize", (acc, bias, constant_of(scale)), step.result, exact)


def _integer_product(writer: _Writer, step: Step) -> Value:
    made = variable_weights.integer_product(writer, step)
    writer.magnitude[made] = min(variable_weights.greatest_sum(step), 1 << 31)
    return made


def _like(value: Value) -> Value:
    return Value(value.shape, DType.BOOL)


def _number(value: int, like: Value) -> Value:
    return constant_of(np.asarray(value, dtype=like.dtype.numpy))


def _check_places(writer: _Writer, step: Step, lengths: Sequence[int]) -> None:
    """Require indices of the second operand to lie in axes of these lengths."""
    indices = step.inputs[1]
    if indices.constant is not None:
        return
    for place, length in enumerate(lengths):
        each = indices
        if step.operator == "gather_nd":
            rank = len(indices.shape)
            begin = SliceAttrs(begin=(0,) * (rank - 1) + (place,), step=(1,) * rank)
            each = writer.call(
                "cpu.slice", (indices,), Value((*indices.shape[:-1], 1), indices.dtype), begin
            )
        low, high = max(-length, each.dtype.minimum), min(length, each.dtype.maximum)
        below = writer.call("less", (each, _number(low, each)), _like(each))
        name = "greater_equal" if high == length else "greater"
        above = writer.call(name, (each, _number(high, each)), _like(each))
        outside = writer.call("logical_or", (below, above), _like(each))
        writer.require(outside, f"{step.operator} reads outside of an axis of length {length}")


def _take(writer: _Writer, step: Step) -> None:
    if len(step.inputs) == 2:
        _by_axis(writer, step)
        return
    _, indices, length = step.inputs
    wide = Value(indices.shape, DType.INT64)
    place = writer.call("cast", (indices,), wide, CastAttrs(dtype=DType.INT64))
    lowest = writer.call("negative", (length,), length)
    below = writer.call("less", (place, lowest), _like(indices))
    above = writer.call("greater_equal", (place, length), _like(indices))
    outside = writer.call("logical_or", (below, above), _like(indices))
    writer.require(outside, "take reads outside of its axis")


def _by_axis(writer: _Writer, step: Step) -> None:
    shape = step.inputs[0].shape
    _check_places(writer, step, [shape[attrs_of(step, AxisAttrs).axis % len(shape)]])


def _gather_nd(writer: _Writer, step: Step) -> None:
    data, indices = step.inputs
    _check_places(writer, step, data.shape[: indices.shape[-1]])


def _divide(writer: _Writer, step: Step) -> None:
    divisor = step.inputs[1]
    if divisor.dtype.is_integer:
        zero = writer.call("equal", (divisor, _number(0, divisor)), _like(divisor))
        writer.require(zero, "divide has an integer divisor of zero")


_REWRITES: Final[Mapping[str, Callable[[_Writer, Step], Value | None]]] = {
    **shaping.REWRITES,
    "nn.softmax": _softmax,
    "nn.log_softmax": _softmax,
    "nn.fast_softmax": _softmax,
    "nn.cross_entropy": _cross_entropy,
    "nn.cross_entropy_with_logits": _cross_entropy,
    "mean": _mean,
    "argmax": _argmax,
    "nn.batch_norm": _batch_norm,
    "nn.avg_pool2d": _avg_pool,
    "nn.dense": variable_weights.dense,
    "nn.conv2d": variable_weights.conv2d,
    "nn.conv2d_transpose": _conv2d_transpose,
    "image.resize2d": _resize,
    "qnn.matmul": _integer_product,
    "qnn.requantize": _requantize,
    "take": _take,
    "gather_elements": _by_axis,
    "gather_nd": _gather_nd,
    "divide": _divide,
}
