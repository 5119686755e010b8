"""Integer weights, biases and multipliers of a layer.

    result = (acc + bias) * multiplier / 2**shift + zero_point
    acc    = sum of weight * (data - zero_point of the data)
    weight = half_even(w / s_w[c])    bias = half_even(b / (s_x * s_w[c]))
    multiplier / 2**shift = s_x * s_w[c] / s_y

Where the result stays in floating point it is float32(acc + bias) * float32(s_x * s_w[c]) instead.
Weights are symmetric, one scale for each output channel, which is widened where the channel's bias
would not fit 30 bits, or where its factor would be too small to have all bits of a multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.compiler.quantization.fixed_point import FactorOutOfRangeError, fixed_point
from codesign.compiler.quantization.moments import Moments
from codesign.compiler.quantization.ranges import QuantParams
from codesign.compiler.quantization.rounding import compensated, nearest
from codesign.dtypes import Array

GREATEST_WEIGHT: Final = 127
_BIAS_LIMIT: Final = 2.0**30
_ACCUMULATOR_LIMIT: Final = 2**31 - 1
_LEAST_FACTOR: Final = 2.0**-30
_LEAST_STEP: Final = 2.0**-100


class NoIntegerLayerError(ValueError):
    """A layer's numbers do not fit the integer vocabulary; the message says which and why."""


@final
@dataclass(frozen=True, slots=True)
class Sums:
    """What makes a layer's 32-bit sums: weight int8, bias int32 [m].

    `scale` [m], float64, is what one step of each channel's sum stands for.
    """

    weight: Array
    bias: Array
    scale: Array
    notes: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class IntegerLayer:
    """A layer's constants: weight int8, the others int32 for each output channel."""

    weight: Array
    bias: Array
    multiplier: Array
    shift: Array
    notes: tuple[str, ...]


def integer_layer(
    weight: Array,
    bias: Array,
    source: QuantParams,
    result: QuantParams,
    moments: Moments | None = None,
) -> IntegerLayer:
    """Return the integer constants of a weight [m, ...] and a bias [m]; `moments` as in `sums`.

    Raises
    ------
    NoIntegerLayerError
        An accumulator could leave 32 bits, or a factor has no multiplier.
    """
    made = sums(weight, bias, source, moments, least=_LEAST_FACTOR * result.scale)
    try:
        multiplier, shift = fixed_point(made.scale / result.scale)
    except FactorOutOfRangeError as error:
        raise NoIntegerLayerError(f"its scale has no multiplier: {error}") from error
    return IntegerLayer(made.weight, made.bias, multiplier, shift, made.notes)


def sums(
    weight: Array,
    bias: Array,
    source: QuantParams,
    moments: Moments | None = None,
    *,
    least: float = _LEAST_STEP,
) -> Sums:
    """Return the integer weight and bias of a weight [m, ...] and a bias [m].

    `moments` are of what the weight is multiplied by: weights are then rounded such that the result
    stays, and the bias makes up for the mean of the rounding errors. A step of a channel's sum
    stands for `least` or more.

    Raises
    ------
    NoIntegerLayerError
        An accumulator could leave 32 bits.
    """
    values = weight.astype(np.float64).reshape(weight.shape[0], -1)
    narrow = np.max(np.abs(values), axis=1, initial=0.0) / GREATEST_WEIGHT
    scales = np.maximum(narrow, least / source.scale)
    needed = np.abs(bias) / (source.scale * _BIAS_LIMIT)
    widened = int(np.count_nonzero((needed > narrow) & (narrow > 0)))
    scales = np.maximum(scales, needed)
    codes = _codes(values / scales[:, None], moments)
    if moments is not None:
        bias = bias - _expected(codes * scales[:, None] - values, moments)
    biases = np.rint(bias / (source.scale * scales))
    _check_accumulator(codes, biases, source)
    notes: tuple[str, ...] = ()
    if widened:
        notes = (
            f"the weight scale of {widened} of {len(scales)} channels is widened so that the bias "
            f"fits an accumulator",
        )
    return Sums(
        codes.astype(np.int8).reshape(weight.shape),
        biases.astype(np.int32),
        source.scale * scales,
        notes,
    )


def _codes(values: Array, moments: Moments | None) -> Array:
    covariance = None if moments is None else moments.covariance
    if covariance is None:
        return nearest(values, GREATEST_WEIGHT)
    grouped = values.reshape(covariance.shape[0], -1, values.shape[1])
    return compensated(grouped, covariance, GREATEST_WEIGHT).reshape(values.shape)


def _expected(errors: Array, moments: Moments) -> Array:
    """Return what errors of the weight add to each result on average."""
    groups, taps = moments.mean.shape
    by_group = errors.reshape(groups, -1, taps) * moments.mean[:, None, :]
    return np.asarray(by_group.sum(axis=2).reshape(-1))


def _check_accumulator(codes: Array, biases: Array, source: QuantParams) -> None:
    reach = max(127 - source.zero_point, source.zero_point + 128)
    greatest = np.abs(codes).sum(axis=1) * reach + np.abs(biases)
    if greatest.size and greatest.max() > _ACCUMULATOR_LIMIT:
        raise NoIntegerLayerError(
            f"its accumulator could reach {int(greatest.max())}, beyond 32 bits"
        )
