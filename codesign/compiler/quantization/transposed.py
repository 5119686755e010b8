"""Transposed convolutions as convolutions whose results are interleaved.

    nn.conv2d_transpose(%x, w, strides=[2, 2])
becomes
    reshape(transpose(reshape(concatenate((nn.conv2d(%x, w00), … nn.conv2d(%x, w11)), axis=1))))

A result's place y, counted before the padding is cut off, takes the taps k with k = y modulo the
stride: each remainder is a convolution of its own, over the taps that it takes, mirrored. Together
they multiply as often as the transposed convolution has to. What follows element by element, as a
bias and a function, follows each part, so that it stays one layer with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Final, final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.dtypes import Array
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef, Tuple
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import rewrite_pairs, use_counts
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.conv2d_transpose import Conv2DTransposeAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.transpose import TransposeAttrs

_FOLLOWS: Final = frozenset({"nn.relu", "clip", "tanh", "sigmoid"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """The taps of one remainder along one axis: first, stride, number; padding of the data."""

    first: int
    stride: int
    taps: int
    before: int
    after: int

    def of(self, weight: Array, axis: int) -> Array:
        """Return the taps in the order in which a convolution meets the data."""
        places = self.first + self.stride * np.arange(self.taps)[::-1]
        return np.take(weight, places, axis=axis)


def split_transposed(module: Module) -> Module:
    """Return a network in which transposed convolutions are convolutions and an interleaving.

    Left as they are: those with groups, dilation or a weight that is computed, and those whose
    result is no whole number of strides long.
    """
    main = module.main
    types = infer_types(module)
    uses = use_counts(main.body)
    parts: dict[Expr, tuple[tuple[Expr, ...], tuple[int, int]]] = {}

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        type_ = types.get(original)
        if not isinstance(original, Call) or not isinstance(rebuilt, Call):
            return rebuilt
        if not isinstance(type_, TensorType):
            return rebuilt
        before = original.args[0] if original.args else original
        if before in parts and uses[before] == 1 and _is_elementwise(original):
            made, step = parts[before]
            follow = tuple(replace(rebuilt, args=(each, *rebuilt.args[1:])) for each in made)
            parts[original] = follow, step
            return interleaved(follow, type_.static_shape, step)
        source = types.get(before)
        if not isinstance(original.attrs, Conv2DTransposeAttrs):
            return rebuilt
        split = _split(rebuilt, source, type_)
        if split is None:
            return rebuilt
        parts[original] = split, original.attrs.strides
        return interleaved(split, type_.static_shape, original.attrs.strides)

    return module.with_main(replace(main, body=rewrite_pairs(main.body, rule)))


def _is_elementwise(call: Call) -> bool:
    match call:
        case Call(callee=OpRef(name="nn.bias_add"), attrs=BiasAddAttrs(axis=axis)):
            return axis in (1, -3)
        case Call(callee=OpRef(name=name)):
            return name in _FOLLOWS
        case _:
            return False


def _split(call: Call, source: object, result: TensorType) -> tuple[Expr, ...] | None:
    """Return the convolutions of all remainders, rows first; None where they are not alike."""
    data, weight = call.args
    attrs = call.attrs
    if not isinstance(attrs, Conv2DTransposeAttrs) or not isinstance(source, TensorType):
        return None
    if not isinstance(weight, Constant) or attrs.groups > 1 or attrs.dilation != (1, 1):
        return None
    axes = [
        _remainders(
            weight.value.shape[axis + 2],
            attrs.strides[axis],
            attrs.padding[axis],
            source.static_shape[axis + 2],
            result.static_shape[axis + 2],
        )
        for axis in (0, 1)
    ]
    if any(axis is None for axis in axes):
        return None
    rows, columns = (axis or () for axis in axes)
    straight = np.swapaxes(weight.value, 0, 1)
    return tuple(
        Call(
            OpRef("nn.conv2d"),
            (data, Constant(np.ascontiguousarray(x.of(y.of(straight, 2), 3)), weight.span)),
            Conv2DAttrs(padding=(y.before, x.before, y.after, x.after)),
            call.span,
        )
        for y, x in product(rows, columns)
    )


def _remainders(
    kernel: int, stride: int, padding: int, size: int, length: int
) -> tuple[_Axis, ...] | None:
    """Return the taps of each place within a stride; None where a place has none or lacks data."""
    if length % stride or kernel < stride:
        return None
    found = []
    for place in range(stride):
        skipped, first = divmod(place + padding, stride)
        taps = -(-(kernel - first) // stride)
        before = taps - 1 - skipped
        after = length // stride + skipped - size
        if before < 0 or after < 0:
            return None
        found.append(_Axis(first=first, stride=stride, taps=taps, before=before, after=after))
    return tuple(found)


def interleaved(parts: tuple[Expr, ...], shape: tuple[int, ...], step: tuple[int, int]) -> Expr:
    """Return the [n, c, h, w] in which every `step`-th row and column is a part's, rows first."""
    if len(parts) == 1:
        return parts[0]
    n, c, h, w = shape
    apart = (n, *step, c, h // step[0], w // step[1])
    joined = Call(OpRef("concatenate"), (Tuple(parts),), AxisAttrs(axis=1))
    planes = Call(OpRef("reshape"), (joined,), ReshapeAttrs(shape=apart))
    turned = Call(OpRef("transpose"), (planes,), TransposeAttrs(axes=(0, 3, 4, 1, 5, 2)))
    return Call(OpRef("reshape"), (turned,), ReshapeAttrs(shape=shape))
