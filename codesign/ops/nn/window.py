"""Sliding windows over the last two axes: what convolutions and pools share.

    extent = (kernel - 1) * dilation + 1
    length = floor((size + before + after - extent) / stride) + 1

With `ceil_mode` the quotient is rounded up, but a window must begin inside the data or the padding
before it. Negative padding removes elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Call
from codesign.ops.relations import mistake, require_positive

Pair: TypeAlias = tuple[int, int]
Padding: TypeAlias = tuple[int, int, int, int]
"""Elements added at the top, left, bottom and right."""

_AXES: Final = ("height", "width")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A kernel's shape, its steps and the padding around the data."""

    kernel: Pair
    strides: Pair
    padding: Padding
    dilation: Pair = (1, 1)
    ceil_mode: bool = False

    @property
    def extent(self) -> Pair:
        """Elements from the first to the last that one window covers."""
        (kh, kw), (dh, dw) = self.kernel, self.dilation
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    def output(self, size: Pair) -> Pair:
        """Return the number of windows along each axis; not positive where none fits."""
        return self._length(size, 0), self._length(size, 1)

    def _length(self, size: Pair, axis: int) -> int:
        before, after = self.padding[axis], self.padding[axis + 2]
        room = size[axis] + before + after - self.extent[axis]
        stride = self.strides[axis]
        if not self.ceil_mode or room < 0:
            return room // stride + 1
        length = -(-room // stride) + 1
        return length - 1 if (length - 1) * stride >= size[axis] + before else length

    def check(self, call: Call, size: Pair) -> Pair:
        """Return the output size; refuse a window that has no meaning or does not fit."""
        require_positive(call, self.kernel, "kernel size")
        require_positive(call, self.strides, "strides")
        require_positive(call, self.dilation, "dilation")
        output = self.output(size)
        for axis, name in enumerate(_AXES):
            before, after = self.padding[axis], self.padding[axis + 2]
            if size[axis] + min(before, 0) + min(after, 0) < 0:
                raise mistake(
                    call,
                    f"has negative padding beyond the {name} of its input",
                    f"{name} {size[axis]}, padding {before} and {after}",
                )
            if output[axis] < 1:
                raise mistake(
                    call,
                    f"has no output along its {name}",
                    f"({size[axis]} + {before} + {after} - (({self.kernel[axis]} - 1) * "
                    f"{self.dilation[axis]} + 1)) / {self.strides[axis]} + 1 = {output[axis]}",
                    help="the kernel is longer than the padded input",
                )
        return output

    def padded(self, data: Array, value: float) -> Array:
        """Return the data with its padding, and with room for the last window of `ceil_mode`."""
        height, width = self.output((data.shape[2], data.shape[3]))
        top, left, bottom, right = self.padding
        need_h = (height - 1) * self.strides[0] + self.extent[0]
        need_w = (width - 1) * self.strides[1] + self.extent[1]
        bottom = max(bottom, need_h - data.shape[2] - top)
        right = max(right, need_w - data.shape[3] - left)
        widths = ((0, 0), (0, 0), (top, bottom), (left, right))
        return pad_constant(data, widths, value)

    def taps(self, padded: Array, output: Pair) -> list[Array]:
        """Return, for each place of the kernel in order, the elements it meets: [n, c, oh, ow]."""
        (kh, kw), (dh, dw), (sh, sw) = self.kernel, self.dilation, self.strides
        oh, ow = output
        return [
            padded[
                :,
                :,
                i * dh : i * dh + (oh - 1) * sh + 1 : sh,
                j * dw : j * dw + (ow - 1) * sw + 1 : sw,
            ]
            for i in range(kh)
            for j in range(kw)
        ]


def pad_constant(data: Array, widths: tuple[Pair, ...], value: float) -> Array:
    """Return the data with elements added before and after each axis; negative widths remove."""
    kept = data[
        tuple(
            slice(max(-before, 0), size - max(-after, 0))
            for (before, after), size in zip(widths, data.shape, strict=True)
        )
    ]
    added = tuple((max(before, 0), max(after, 0)) for before, after in widths)
    if not any(before or after for before, after in added):
        return kept
    return np.pad(kept, added, constant_values=data.dtype.type(value))
