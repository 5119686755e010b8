"""Mean and covariance of what each row of a layer's weight is multiplied by, over the samples."""

from __future__ import annotations

from typing import Final, final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from codesign.compiler.quantization.forms import Affine
from codesign.dtypes import Array
from codesign.ops.nn.conv2d import Conv2DAttrs

GREATEST_TAPS: Final = 2304
"""Layers with more taps have no covariance: it would take over 40 MiB."""
_POSITIONS: Final = 256
"""How many positions of one sample are looked at, evenly spread."""
_AT_ONCE: Final = 8


@final
class Moments:
    """Moments of the patches [groups, taps] that a layer sees; taps are (channel, row, column)."""

    def __init__(self, form: Affine) -> None:
        attrs = form.chain[0].attrs
        self._attrs = attrs if isinstance(attrs, Conv2DAttrs) else None
        self._groups = 1 if self._attrs is None else self._attrs.groups
        self._kernel = form.weight.shape[2:]
        taps = int(np.prod(form.weight.shape[1:]))
        self._count = 0
        self._shift: Array | None = None
        self._sum = np.zeros((self._groups, taps))
        self._has_covariance = taps <= GREATEST_TAPS
        self._products = np.zeros((self._groups, taps, taps if self._has_covariance else 0))
        self._waiting: list[Array] = []

    def add(self, data: Array) -> None:
        """Look at the data of one more sample."""
        patches = self._patches(np.asarray(data, np.float32))
        if self._shift is None:
            # Differences from a typical patch: products of large means would drown small variances.
            self._shift = patches.mean(axis=1, keepdims=True)
        patches = patches - self._shift
        self._count += patches.shape[1]
        self._sum += patches.sum(axis=1, dtype=np.float64)
        if self._has_covariance:
            # Some samples at once: adding the matrix of products costs more than the products.
            self._waiting.append(patches)
            if len(self._waiting) == _AT_ONCE:
                self._multiply()

    @property
    def mean(self) -> Array:
        """Mean of each tap, [groups, taps]."""
        shift = 0.0 if self._shift is None else self._shift[:, 0, :].astype(np.float64)
        return np.asarray(shift + self._sum / max(self._count, 1))

    @property
    def covariance(self) -> Array | None:
        """Covariance of the taps, [groups, taps, taps]; None where there are too many."""
        if not self._has_covariance or self._count == 0:
            return None
        self._multiply()
        rest = self._sum / self._count
        return np.asarray(self._products / self._count - rest[:, :, None] * rest[:, None, :])

    def _multiply(self) -> None:
        if self._waiting:
            patches = np.concatenate(self._waiting, axis=1)
            self._products += patches.transpose(0, 2, 1) @ patches
            self._waiting = []

    def _patches(self, data: Array) -> Array:
        """Return the patches at some positions, [groups, positions, taps]."""
        if self._attrs is None:
            return data.reshape(1, -1, data.shape[-1])
        top, left, bottom, right = self._attrs.padding
        padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
        (rows, columns), dilation = self._kernel, self._attrs.dilation
        extent = ((rows - 1) * dilation[0] + 1, (columns - 1) * dilation[1] + 1)
        windows = sliding_window_view(padded, extent, axis=(2, 3))
        windows = windows[
            :, :, :: self._attrs.strides[0], :: self._attrs.strides[1],
            :: dilation[0], :: dilation[1],
        ]  # fmt: skip
        n, channels, height, width = windows.shape[:4]
        step = -(-n * height * width // _POSITIONS)
        places = np.arange(0, n * height * width, step)
        index = np.unravel_index(places, (n, height, width))
        picked = windows[index[0], :, index[1], index[2]]
        grouped = picked.reshape(
            len(places), self._groups, channels // self._groups * rows * columns
        )
        return grouped.transpose(1, 0, 2)
