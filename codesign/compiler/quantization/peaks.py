"""The greatest sums of a layer on the samples: what its accumulators must hold."""

from __future__ import annotations

from typing import final

import numpy as np

from codesign.compiler.quantization.forms import Affine
from codesign.dtypes import Array
from codesign.ops.nn.conv2d import Conv2DAttrs


@final
class Peaks:
    """Magnitudes of each channel's greatest sum, without bias."""

    def __init__(self, form: Affine) -> None:
        self._axis = 1 if isinstance(form.chain[0].attrs, Conv2DAttrs) else -1
        self.greatest: Array = np.zeros(form.weight.shape[0])

    def add(self, sums: Array) -> None:
        """Look at the sums of one more sample."""
        by_channel = np.moveaxis(sums, self._axis, 0).reshape(len(self.greatest), -1)
        found = np.abs(by_channel).max(axis=1, initial=0.0)
        self.greatest = np.maximum(self.greatest, found)
