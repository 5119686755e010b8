"""How a network is quantized."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import final


class RangeMethod(StrEnum):
    """How the range of a tensor follows from the values that were seen."""

    MINMAX = "minmax"
    PERCENTILE = "percentile"
    MSE = "mse"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationConfig:
    """Parameters of post-training quantization to int8.

    Attributes
    ----------
    method : RangeMethod
        `minmax` keeps every value seen; `percentile` cuts both tails; `mse` takes the range whose
        quantization has the least squared error over the histogram.
    percentile : float
        Share of values kept by `percentile`, within (50, 100].
    bins : int
        Bins of the histogram of each tensor.
    compensate : bool
        Whether weights are rounded such that each layer's result stays, not each weight, and biases
        make up for what rounding does to the mean.
    float_results : bool
        Whether a layer whose codes no other layer reads gives its 32-bit sums, in float32, instead
        of int8 codes: results that lie closer than a step of int8 stay apart. Such a layer runs on
        the host.
    measure_error : bool
        Whether the quantized network is run on the samples again, to report each layer's
        signal-to-quantization-noise ratio against fp32.
    """

    method: RangeMethod = RangeMethod.MSE
    percentile: float = 99.99
    bins: int = 4096
    compensate: bool = True
    float_results: bool = False
    measure_error: bool = False

    def __post_init__(self) -> None:
        if not 50 < self.percentile <= 100:
            raise ValueError(
                f"QuantizationConfig.percentile must be within (50, 100], not {self.percentile}"
            )
        if self.bins < 256 or self.bins % 4:
            raise ValueError(
                f"QuantizationConfig.bins must be a multiple of 4 of at least 256, not {self.bins}"
            )
