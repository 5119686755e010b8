"""Element types: bits, range, NumPy type, and their spelling in Relay text."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


class DType(StrEnum):
    """An element type; its value is its spelling in Relay text.

    Examples
    --------
    >>> DType.INT8.bits, DType.INT8.minimum, DType.INT8.maximum
    (8, -128, 127)
    """

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of the same elements."""
        return np.dtype(self.value)

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.value.startswith("float")

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers; `bool` is not."""
        return not self.is_float and self is not DType.BOOL

    @property
    def bits(self) -> int:
        """Size of an element in memory, in bits."""
        return int(self.numpy.itemsize) * 8

    @property
    def size_bytes(self) -> int:
        """Size of an element in memory, in bytes."""
        return int(self.numpy.itemsize)

    @property
    def minimum(self) -> int:
        """Least integer of an integer type."""
        return int(np.iinfo(self.numpy).min)

    @property
    def maximum(self) -> int:
        """Greatest integer of an integer type."""
        return int(np.iinfo(self.numpy).max)

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> DType:
        """Return the element type of a NumPy type; raise ValueError where there is none."""
        return cls(dtype.name)
