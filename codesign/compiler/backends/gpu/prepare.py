"""What a legal graph is before tensor cores take it.

- Sums of products of int8 less a zero point become such of int8: a padded image is padded with the
  zero point before, and what the zero point adds to each channel, a constant, is taken off after.
- A weight of float32 whose values are all float16, beside data that was float16, is float16 again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from codesign.compiler.lower.graph import Graph, Step, Value
from codesign.compiler.lower.legalize import constant_of
from codesign.dtypes import DType
from codesign.ops.cast import CastAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs

PRODUCTS: Final = frozenset(
    {"nn.conv2d", "qnn.conv2d", "nn.dense", "qnn.dense", "nn.matmul", "nn.batch_matmul"}
)
"""Operators that tensor cores take."""


def prepared(graph: Graph) -> Graph:
    """Return an equal graph with fewer obstacles to tensor cores."""
    steps: list[Step] = []
    producers: dict[Value, Step] = {}
    for step in graph.steps:
        for each in _without_zero_point(step) or (_with_halves(step, producers) or (step,)):
            producers[each.result] = each
            steps.append(each)
    return Graph(graph.inputs, tuple(steps), graph.outputs, graph.checks)


def is_widening(step: Step) -> bool:
    """Whether a step is a cast of float16 to float32, which whatever reads it can do itself."""
    return (
        step.operator == "cast"
        and step.result.dtype is DType.FLOAT32
        and step.inputs[0].dtype is DType.FLOAT16
    )


def _without_zero_point(step: Step) -> tuple[Step, ...]:
    attrs = step.attrs
    if not isinstance(attrs, QConv2DAttrs | QDenseAttrs) or not attrs.zero_point:
        return ()
    data, weight = step.inputs
    int8 = data.dtype is DType.INT8 and weight.dtype is DType.INT8
    if weight.constant is None or not int8 or step.result.dtype is not DType.INT32:
        return ()
    steps: list[Step] = []
    changed: QConv2DAttrs | QDenseAttrs
    totals = weight.constant.astype(np.int64).reshape(weight.shape[0], -1).sum(axis=1)
    shape: tuple[int, ...] = (weight.shape[0],)
    if isinstance(attrs, QConv2DAttrs):
        shape = (1, *shape, 1, 1)
        top, left, bottom, right = attrs.padding
        widths = ((0, 0), (0, 0), (top, bottom), (left, right))
        if any(attrs.padding):
            padded = tuple(
                extent + before + after
                for extent, (before, after) in zip(data.shape, widths, strict=True)
            )
            wide = Value(padded, data.dtype)
            pad = PadAttrs(pad_width=widths, value=float(attrs.zero_point))
            steps.append(Step("nn.pad", pad, (data,), wide, step.span))
            data = wide
        changed = replace(attrs, zero_point=0, padding=(0, 0, 0, 0))
    else:
        changed = replace(attrs, zero_point=0)
    excess = constant_of((totals * attrs.zero_point).astype(np.int32).reshape(shape))
    sums = Value(step.result.shape, DType.INT32)
    steps += [
        Step(step.operator, changed, (data, weight), sums, step.span),
        Step("subtract", None, (sums, excess), step.result, step.span),
    ]
    return tuple(steps)


def _with_halves(step: Step, producers: Mapping[Value, Step]) -> tuple[Step, ...]:
    if step.operator not in PRODUCTS or len(step.inputs) != 2:
        return ()
    widened = [value in producers and is_widening(producers[value]) for value in step.inputs]
    if not any(widened):
        return ()
    casts: list[Step] = []
    inputs: list[Value] = []
    for value in step.inputs:
        array = value.constant
        if array is not None and array.dtype == np.float32:
            half = array.astype(np.float16)
            if np.array_equal(half.astype(np.float32), array):
                wide = Value(value.shape, DType.FLOAT32)
                attrs = CastAttrs(dtype=DType.FLOAT32)
                casts.append(Step("cast", attrs, (constant_of(half),), wide, step.span))
                inputs.append(wide)
                continue
        inputs.append(value)
    return (*casts, replace(step, inputs=tuple(inputs)))
