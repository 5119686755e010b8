"""Products of small matrices that a warp computes together, and which lane holds which element.

A warp is 32 lanes; `group` is lane // 4 and `turn` lane % 4. Each lane holds a few elements of
both factors and of the sums: a fragment.

Source: NVIDIA, PTX ISA 8.7, section 9.7.14 (warp-level matrix multiply-accumulate instructions).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, final

from codesign.dtypes import DType

WARP: Final = 32
"""Lanes of a warp."""

Place: TypeAlias = tuple[int, int]
"""Row and column of an element."""


@final
@dataclass(frozen=True, slots=True)
class MmaShape:
    """Extents of `sums[m, n] += left[m, k] * right[k, n]`, and the registers' element types.

    `run` is how many neighbours on k a lane holds side by side; `parts` into how many a factor is
    split before it is multiplied.
    """

    m: int
    n: int
    k: int
    run: int
    factor: DType
    sums: DType
    parts: int = 1


class Mma(Enum):
    """How a warp multiplies. Sums are float32, or int32 of int8.

    F16 multiplies float16; TF32 and BF16 multiply float32 rounded to eleven and eight bits; SPLIT
    multiplies float32 as a high and a low part of TF32 and leaves out the product of the low parts,
    which keeps 21 bits; S8 multiplies int8.
    """

    F16 = MmaShape(16, 8, 16, 2, DType.FLOAT16, DType.FLOAT32)
    TF32 = MmaShape(16, 8, 8, 1, DType.FLOAT32, DType.FLOAT32)
    SPLIT = MmaShape(16, 8, 8, 1, DType.FLOAT32, DType.FLOAT32, 2)
    BF16 = MmaShape(16, 8, 16, 2, DType.FLOAT32, DType.FLOAT32)
    S8 = MmaShape(16, 8, 32, 4, DType.INT8, DType.INT32)

    @property
    def shape(self) -> MmaShape:
        """Extents and types."""
        return self.value

    @property
    def left_elements(self) -> int:
        """Elements of the left factor that a lane holds."""
        return self.shape.m * self.shape.k // WARP

    @property
    def right_elements(self) -> int:
        """Elements of the right factor that a lane holds."""
        return self.shape.k * self.shape.n // WARP

    @property
    def sums_elements(self) -> int:
        """Sums that a lane holds."""
        return self.shape.m * self.shape.n // WARP

    def left_place(self, lane: int, element: int) -> Place:
        """Return (m, k) of an element of a lane's left fragment."""
        group, turn = divmod(lane, 4)
        part, inside = divmod(element, self.shape.run)
        return group + 8 * (part % 2), self._k(turn, part // 2, inside)

    def right_place(self, lane: int, element: int) -> Place:
        """Return (k, n) of an element of a lane's right fragment."""
        group, turn = divmod(lane, 4)
        part, inside = divmod(element, self.shape.run)
        return self._k(turn, part, inside), group

    def sums_place(self, lane: int, element: int) -> Place:
        """Return (m, n) of an element of a lane's sums."""
        group, turn = divmod(lane, 4)
        return group + 8 * (element // 2), 2 * turn + element % 2

    def _k(self, turn: int, half: int, inside: int) -> int:
        return half * self.shape.k // 2 + turn * self.shape.run + inside
