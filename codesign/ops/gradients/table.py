"""Every operator's gradient, or why it has none, as one immutable table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from codesign.ops.gradients import (
    elementwise,
    movement,
    normalization,
    products,
    reductions,
    windows,
)
from codesign.ops.operator import Gradient, NotDifferentiable

_INTEGERS: Final = NotDifferentiable("it computes on integers, which have no gradient")
_FROM_INTEGERS: Final = NotDifferentiable("what it reads are integers, which have no gradient")

_QUANTIZED: Final[Mapping[str, NotDifferentiable]] = {
    "qnn.quantize": NotDifferentiable("it rounds to integers"),
    "qnn.dequantize": _FROM_INTEGERS,
    "qnn.conv2d": _INTEGERS,
    "qnn.dense": _INTEGERS,
    "qnn.matmul": _INTEGERS,
    "qnn.requantize": _INTEGERS,
    "qnn.lookup": _INTEGERS,
    "qnn.add": _INTEGERS,
    "qnn.multiply": _INTEGERS,
    "qnn.sum_pool2d": _INTEGERS,
}

GRADIENTS: Final[Mapping[str, Gradient | NotDifferentiable]] = MappingProxyType(
    {
        **elementwise.GRADIENTS,
        **reductions.GRADIENTS,
        **movement.GRADIENTS,
        **products.GRADIENTS,
        **windows.GRADIENTS,
        **normalization.GRADIENTS,
        **_QUANTIZED,
    }
)
"""By the operator's name."""
