"""How a network is quantized."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from codesign.dtypes import DType


class RangeMethod(StrEnum):
    """How the range of a tensor follows from the values that were seen."""

    MINMAX = "minmax"
    PERCENTILE = "percentile"
    MSE = "mse"
    KL = "kl"
    GLOBAL = "global"


class Scheme(StrEnum):
    """Bits of values and weights, and bits of the sums of their products.

    Sums wrap: they are exact modulo 2**16 or 2**32, in any order. Weights take as few bits as it
    needs for the sums that were seen to fit, with some headroom.
    """

    INT8_SUMS16 = "8/16"
    INT8_SUMS32 = "8/32"
    INT16_SUMS32 = "16/32"

    @property
    def codes(self) -> DType:
        """Element type of values."""
        return DType.INT16 if self is Scheme.INT16_SUMS32 else DType.INT8

    @property
    def sums(self) -> DType:
        """Element type of sums."""
        return DType.INT16 if self is Scheme.INT8_SUMS16 else DType.INT32

    @property
    def greatest_weight(self) -> int:
        """Magnitude of the greatest weight.

        With 16-bit sums it is 64, such that two products of any codes fit 16 bits.
        """
        return _GREATEST_WEIGHTS[self]

    @property
    def may_wrap(self) -> bool:
        """Whether there are layers whose sums could wrap, were their weights not held small."""
        return self is not Scheme.INT8_SUMS32


_GREATEST_WEIGHTS: Final = {
    Scheme.INT8_SUMS16: 64,
    Scheme.INT8_SUMS32: 127,
    Scheme.INT16_SUMS32: 32767,
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationConfig:
    """Parameters of post-training quantization.

    Attributes
    ----------
    scheme : Scheme
        Bits of values and of sums.
    method : RangeMethod
        `minmax` keeps every value seen; `percentile` cuts both tails; `mse` takes the range whose
        quantization has the least squared error over the histogram; `kl` the one with the least
        Kullback-Leibler divergence of the histogram from what its codes can say; `global` takes one
        range for all tensors, from minus to plus `global_range` (less one step).
    percentile : float
        Share of values kept by `percentile`, within (50, 100].
    global_range : float | None
        Half of the range of `global`; None takes the greatest magnitude of all tensors.
    power_of_two : bool
        Whether scales are rounded up to powers of two, so that requantization is a shift.
    per_channel : bool
        Whether each output channel's weights have a scale of their own.
    headroom : float
        How many times greater than on the samples a sum may be before it wraps, at least 1; and
        values of 16 bits before they saturate.
    bins : int
        Bins of the histogram of each tensor.
    compensate : bool
        Whether weights are rounded such that each layer's result stays, not each weight, and biases
        make up for what rounding does to the mean.
    float_results : bool
        Whether a layer whose codes no other layer reads gives its sums, in float32, instead of
        codes: results that lie closer than a step of int8 stay apart. Such a layer runs on the
        host. With 16/32, whose functions are floating point, it is always so.
    measure_error : bool
        Whether the quantized network is run on the samples again, to report each layer's
        signal-to-quantization-noise ratio against fp32.
    """

    scheme: Scheme = Scheme.INT8_SUMS32
    method: RangeMethod = RangeMethod.MSE
    percentile: float = 99.99
    global_range: float | None = None
    power_of_two: bool = False
    per_channel: bool = True
    headroom: float = 2.0
    bins: int = 4096
    compensate: bool = True
    float_results: bool = False
    measure_error: bool = False

    def __post_init__(self) -> None:
        if not 50 < self.percentile <= 100:
            raise ValueError(
                f"QuantizationConfig.percentile must be within (50, 100], not {self.percentile}"
            )
        if self.global_range is not None and not self.global_range > 0:
            raise ValueError(
                f"QuantizationConfig.global_range must be positive, not {self.global_range}"
            )
        if not self.headroom >= 1:
            raise ValueError(f"QuantizationConfig.headroom must be at least 1, not {self.headroom}")
        if self.bins < 256 or self.bins % 4:
            raise ValueError(
                f"QuantizationConfig.bins must be a multiple of 4 of at least 256, not {self.bins}"
            )
