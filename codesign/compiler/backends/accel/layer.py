"""The layers that the accelerator runs: closed set of shapes of work, free of Relay.

Tensors are named; sizes are in tiles along channels and samples, in elements along h and w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from codesign.dtypes import Array

Pair: TypeAlias = tuple[int, int]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TileTensor:
    """A tensor in DRAM: tiles along n, c, h, w, and tiles from one n, c, h to the next.

    `base` is the first tile in the segment. A view of another tensor bears its name: one of its
    rows may be `row_step` rows apart, and one with other axes is not `exact`. A part of a joined
    tensor has a name of its own: it is `whole` from channel tile `first_channel` on. What is
    written between the elements of others has its columns `column_step` tiles apart.
    """

    name: str
    tiles: tuple[int, int, int, int]
    strides: tuple[int, int, int]
    base: int = 0
    row_step: int = 1
    column_step: int = 1
    exact: bool = True
    whole: str | None = None
    first_channel: int = 0

    @property
    def space(self) -> str:
        """The name of the tensor that it is or is a part of: what its tiles are compared in."""
        return self.whole or self.name

    @property
    def count(self) -> int:
        """Tiles of the tensor."""
        return math.prod(self.tiles)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A sliding window; `padding` is top, left, bottom, right."""

    kernel: Pair = (1, 1)
    strides: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    def extent(self, outputs: Pair) -> Pair:
        """Return the rows and columns of input that a box of outputs reads."""
        rows = (outputs[0] - 1) * self.strides[0] + (self.kernel[0] - 1) * self.dilation[0] + 1
        columns = (outputs[1] - 1) * self.strides[1] + (self.kernel[1] - 1) * self.dilation[1] + 1
        return rows, columns

    def outputs(self, size: Pair) -> Pair:
        """Return the rows and columns of output of an input of `size`."""
        top, left, bottom, right = self.padding
        rows = size[0] + top + bottom - (self.kernel[0] - 1) * self.dilation[0] - 1
        columns = size[1] + left + right - (self.kernel[1] - 1) * self.dilation[1] - 1
        return rows // self.strides[0] + 1, columns // self.strides[1] + 1


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaling:
    """Per-channel requantization: int64 arrays over real channels."""

    bias: Array
    multiplier: Array
    shift: Array


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Epilogue:
    """What follows the sum: zero point, clip, table of 256 results indexed by value + 128."""

    zero_point: int = 0
    low: int = -128
    high: int = 127
    table: Array | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Residual:
    """What a gemm layer adds to its own requantized result before the layer's epilogue.

        half_even((own * m + (source - zero_point) * multiplier) / 2**shift)

    where `own` is the requantized sum within `low` to `high`, free of its zero point, and
    `scaling` holds m and shift.
    """

    source: TileTensor
    low: int
    high: int
    scaling: Scaling
    zero_point: int
    multiplier: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """Weights that another step has computed: `tensor` has their tiles in the order of `shape`."""

    tensor: TileTensor
    shape: tuple[int, int, int, int, int, int]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledSum:
    """A sum under a window, of a layer's own requantized result free of its zero point.

    That result lies within `low` to `high`; every term is it and `offset`, and `scaling` makes
    codes of the sum.
    """

    low: int
    high: int
    offset: int
    scaling: Scaling


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """A pool at the end of a gemm layer: of its own `size` rows and columns of results.

    Maxima are taken of sums before they are scaled, where no `total` is: scale, clip and table
    keep the order of values.
    """

    window: Window
    size: Pair
    total: PooledSum | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GemmLayer:
    """A convolution or product of matrices on the array.

    `weights` is int8[tiles of out channels, tiles of in channels that each reads, kh, kw,
    block_out, block_in]; tile o of the output reads input tiles from `first_input[o]` on. The
    channel tiles of tensors in `more` follow those of `source`. With a `pool`, `result` and
    `epilogue` are the pool's.
    """

    name: str
    operator: str
    source: TileTensor
    result: TileTensor
    window: Window
    pad_value: int
    weights: Array | Computed
    first_input: tuple[int, ...]
    scaling: Scaling
    epilogue: Epilogue
    macs: int
    residual: Residual | None = None
    more: tuple[TileTensor, ...] = ()
    pool: Pool | None = None

    @property
    def is_grouped(self) -> bool:
        """Whether tiles of the output read different tiles of the input: each is a load's own."""
        return len(set(self.first_input)) > 1

    @property
    def is_diagonal(self) -> bool:
        """Whether tile o of the output reads tile o of the input alone, as depthwise layers do."""
        outputs, inputs = self.weights.shape[:2]
        return inputs == 1 and self.first_input == tuple(range(outputs))


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowLayer:
    """A window per channel on the vector unit: depthwise convolution, sums, maxima.

    `weights` is int8[channels, kh, kw] for a convolution. Sums and products take
    data - zero_point; padding tiles hold `pad_value`. `array` is the same layer on the array, one
    tile of weights to a tap and tile of channels: both units may share the work.
    """

    name: str
    operator: str
    source: TileTensor
    result: TileTensor
    window: Window
    pad_value: int
    combine: Literal["sum", "max"]
    weights: Array | None
    scaling: Scaling | None
    zero_point: int
    epilogue: Epilogue
    macs: int
    array: GemmLayer | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AddLayer:
    """Weighted sum of two tensors of one shape; `scaling.bias` holds both zero points."""

    name: str
    operator: str
    sources: tuple[TileTensor, TileTensor]
    result: TileTensor
    multipliers: Pair
    scaling: Scaling
    epilogue: Epilogue


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MultiplyLayer:
    """Product of a tensor with another of its shape, or with one value per sample and channel."""

    name: str
    operator: str
    sources: tuple[TileTensor, TileTensor]
    result: TileTensor
    zero_points: Pair
    scaling: Scaling
    epilogue: Epilogue


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookupLayer:
    """A table applied to every element."""

    name: str
    operator: str
    source: TileTensor
    result: TileTensor
    epilogue: Epilogue


Layer: TypeAlias = GemmLayer | WindowLayer | AddLayer | MultiplyLayer | LookupLayer
