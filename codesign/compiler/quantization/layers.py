"""Integer weights, biases and multipliers of a layer.

    result = (acc + bias) * multiplier / 2**shift + zero_point
    acc    = sum of weight * (data - zero_point of the data)
    weight = half_even(w / s_w[c])    bias = half_even(b / (s_x * s_w[c]))
    multiplier / 2**shift = s_x * s_w[c] / s_y

Where the result stays in floating point it is float32(acc + bias) * float32(s_x * s_w[c]) instead.
Weights are symmetric, one scale for each output channel or one for all. It is widened where the
channel's bias would not fit 30 bits, where its factor would be too small to have all bits of a
multiplier, and where the greatest sum seen, with its headroom, would not fit the accumulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.compiler.quantization.config import QuantizationConfig
from codesign.compiler.quantization.fixed_point import (
    MULTIPLIER_BITS,
    FactorOutOfRangeError,
    fixed_point,
)
from codesign.compiler.quantization.moments import Moments
from codesign.compiler.quantization.params import QuantParams, powers_of_two
from codesign.compiler.quantization.rounding import compensated, nearest
from codesign.dtypes import Array, DType

WIDE_MULTIPLIER_BITS: Final = 20
"""Bits of multipliers to int16: with sums of 33 bits the product has 53, which a double holds."""

_BIAS_LIMIT: Final = 2.0**30
_ACCUMULATOR_LIMIT: Final = 2**31 - 1
_LEAST_FACTOR: Final = 2.0**-30
_LEAST_STEP: Final = 2.0**-100
_DEFAULT: Final = QuantizationConfig()


class NoIntegerLayerError(ValueError):
    """A layer's numbers do not fit the integer vocabulary; the message says which and why."""


@final
@dataclass(frozen=True, slots=True)
class Seen:
    """What the samples say of a layer.

    `moments` are of what its weight is multiplied by: where they are given, weights are rounded
    such that the result stays, and the bias makes up for the mean of the rounding errors. `peaks`
    [m] are the greatest sums, where they may wrap.
    """

    moments: Moments | None = None
    peaks: Array | None = None


_NOTHING: Final = Seen()


@final
@dataclass(frozen=True, slots=True)
class Sums:
    """What makes a layer's sums: weight int8 or int16, bias int32 [m].

    `scale` [m], float64, is what one step of each channel's sum stands for.
    """

    weight: Array
    bias: Array
    scale: Array
    notes: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class IntegerLayer:
    """A layer's constants: weight int8 or int16, the others int32 for each output channel."""

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
    seen: Seen = _NOTHING,
    config: QuantizationConfig = _DEFAULT,
) -> IntegerLayer:
    """Return the integer constants of a weight [m, ...] and a bias [m].

    Raises
    ------
    NoIntegerLayerError
        An accumulator could leave 32 bits, or a factor has no multiplier.
    """
    least = _LEAST_FACTOR * result.scale
    made = sums(weight, bias, source, seen, config, least=least)
    try:
        multiplier, shift = fixed_point(made.scale / result.scale, multiplier_bits(result.dtype))
    except FactorOutOfRangeError as error:
        raise NoIntegerLayerError(f"its scale has no multiplier: {error}") from error
    return IntegerLayer(made.weight, made.bias, multiplier, shift, made.notes)


def multiplier_bits(result: DType) -> int:
    """Return how many bits multipliers of sums have."""
    return MULTIPLIER_BITS if result is DType.INT8 else WIDE_MULTIPLIER_BITS


def sums(
    weight: Array,
    bias: Array,
    source: QuantParams,
    seen: Seen = _NOTHING,
    config: QuantizationConfig = _DEFAULT,
    *,
    least: float = _LEAST_STEP,
) -> Sums:
    """Return the integer weight and bias of a weight [m, ...] and a bias [m].

    A step of a channel's sum stands for `least` or more.

    Raises
    ------
    NoIntegerLayerError
        An accumulator could leave 32 bits.
    """
    values = weight.astype(np.float64).reshape(weight.shape[0], -1)
    greatest = config.scheme.greatest_weight
    narrow = np.max(np.abs(values), axis=1, initial=0.0) / greatest
    for_bias = np.abs(bias) / (source.scale * _BIAS_LIMIT)
    for_sums = _room(values, bias, source, seen, config)
    scales = np.maximum.reduce(
        [narrow, for_bias, for_sums, np.full_like(narrow, least / source.scale)]
    )
    notes = _notes(narrow, for_bias, for_sums, config)
    if not config.per_channel:
        scales = np.full_like(scales, scales.max(initial=0.0))
    if config.power_of_two:
        scales = powers_of_two(scales)
    codes = _codes(values / scales[:, None], seen.moments, greatest)
    if seen.moments is not None:
        bias = bias - _expected(codes * scales[:, None] - values, seen.moments)
    biases = np.rint(bias / (source.scale * scales))
    if not config.scheme.may_wrap:
        _check_accumulator(codes, biases, source)
    kind = np.int8 if greatest <= DType.INT8.maximum else np.int16
    return Sums(
        codes.astype(kind).reshape(weight.shape),
        biases.astype(np.int32),
        source.scale * scales,
        notes,
    )


def _room(
    values: Array, bias: Array, source: QuantParams, seen: Seen, config: QuantizationConfig
) -> Array:
    """Return the least weight scales with which the sums that were seen fit the accumulators.

    A channel that was little used on the samples counts as what the median of the channels reached
    for weights of its length.
    """
    if seen.peaks is None:
        return np.zeros(len(bias))
    lengths = np.linalg.norm(values, axis=1)
    used = lengths > 0
    typical = np.median(seen.peaks[used] / lengths[used]) if used.any() else 0.0
    peaks = np.maximum(seen.peaks, typical * lengths) * config.headroom
    if config.scheme.sums is DType.INT32:
        # The bias is added in the same 32 bits; sums of 16 are widened before.
        peaks = peaks + np.abs(bias)
    return np.asarray(peaks / (source.scale * config.scheme.sums.maximum))


def _notes(
    narrow: Array, for_bias: Array, for_sums: Array, config: QuantizationConfig
) -> tuple[str, ...]:
    notes = []
    channels = len(narrow)
    used = narrow > 0
    widened = int(np.count_nonzero((for_bias > np.maximum(narrow, for_sums)) & used))
    if widened:
        notes.append(
            f"the weight scale of {widened} of {channels} channels is widened so that the bias "
            f"fits an accumulator"
        )
    held = (for_sums > narrow) & used
    if held.any():
        least = (config.scheme.greatest_weight * narrow[held] / for_sums[held]).min()
        notes.append(
            f"weights of {int(held.sum())} of {channels} channels are held within +-{least:.0f} or "
            f"more so that sums fit {config.scheme.sums.bits} bits"
        )
    return tuple(notes)


def _codes(values: Array, moments: Moments | None, greatest: int) -> Array:
    covariance = None if moments is None else moments.covariance
    if covariance is None:
        return nearest(values, greatest)
    grouped = values.reshape(covariance.shape[0], -1, values.shape[1])
    return compensated(grouped, covariance, greatest).reshape(values.shape)


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
