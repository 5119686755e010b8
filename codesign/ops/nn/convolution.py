"""The sum of products of a two-dimensional convolution, for every element type that BLAS knows."""

from __future__ import annotations

import numpy as np

from codesign.dtypes import Array
from codesign.ops.nn.window import Window


def convolve(data: Array, weight: Array, window: Window, groups: int) -> Array:
    """Return the convolution of zero-padded data with a weight.

    data[n, c, h, w], weight[o, c / groups, kh, kw] of one floating-point type; the result has that
    type. It is exact where all partial sums are (integers below 2**53 in float64).
    """
    output = window.output((data.shape[2], data.shape[3]))
    taps = window.taps(window.padded(data, 0), output)
    if weight.shape[1] == 1:
        return _depthwise(taps, weight)
    return _matrix_products(taps, weight, groups, data.shape[1])


def _depthwise(taps: list[Array], weight: Array) -> Array:
    n, channels, height, width = taps[0].shape
    multiplier = weight.shape[0] // channels if channels else 0
    kernels = weight.reshape(channels, multiplier, len(taps))
    result = np.zeros((n, channels, multiplier, height, width), weight.dtype)
    for place, tap in enumerate(taps):
        result += tap[:, :, None] * kernels[:, :, place, None, None]
    return result.reshape(n, channels * multiplier, height, width)


def _matrix_products(taps: list[Array], weight: Array, groups: int, channels: int) -> Array:
    n, _, height, width = taps[0].shape
    outputs, reduced = weight.shape[0], weight.shape[1] * len(taps)
    kernels = weight.reshape(groups, outputs // groups, reduced)
    result = np.empty((n, groups, outputs // groups, height * width), weight.dtype)
    for sample in range(n):
        columns = np.stack([tap[sample] for tap in taps], axis=1)
        np.matmul(kernels, columns.reshape(groups, reduced, height * width), out=result[sample])
    return result.reshape(n, outputs, height, width)


def convolve_transposed(
    data: Array, weight: Array, window: Window, output: tuple[int, int], groups: int
) -> Array:
    """Return the transposed convolution: every input element adds a scaled kernel to the output.

    data[n, c, h, w], weight[c, o / groups, kh, kw]; `window` is that of the convolution from the
    output to the data, and `output` the size of the result.
    """
    n, channels, height, width = data.shape
    per_group = weight.shape[1]
    kernels = weight.reshape(groups, channels // groups, per_group, -1)
    pixels = data.reshape(n, groups, channels // groups, height * width)
    top, left, bottom, right = window.padding
    full = np.zeros(
        (n, groups * per_group, output[0] + top + bottom, output[1] + left + right), data.dtype
    )
    for place, tap in enumerate(window.taps(full, (height, width))):
        sums = np.matmul(kernels[:, :, :, place].transpose(0, 2, 1), pixels)
        tap += sums.reshape(tap.shape)
    return full[:, :, top : top + output[0], left : left + output[1]]
