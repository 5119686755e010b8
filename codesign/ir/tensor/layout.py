"""Where the elements of a tensor lie in memory.

A plain tensor of rank 4 lies as [n][c][h][w]; a blocked one as [n][c / block][h][w][block], its
last block filled up with elements of no meaning. Either may carry a halo: rows and columns around
each plane that hold `fill`, so that a window may reach over the edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from codesign.dtypes import DType
from codesign.ir.tensor.index import Index, flatten


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """Block of channels (1 is plain), halo (top, left, bottom, right) and its fill, storage type.

    `storage` is wider than the tensor's own type where arithmetic wants it so.
    """

    block: int = 1
    halo: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: int = 0
    storage: DType | None = None

    @property
    def has_halo(self) -> bool:
        """Whether the planes are larger than the tensor's."""
        return any(self.halo)


PLAIN = Layout()


@final
@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A tensor in memory, as a kernel's operand; identity is the node."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    layout: Layout = PLAIN
    is_constant: bool = False

    @property
    def storage(self) -> DType:
        """The element type in memory."""
        return self.layout.storage or self.dtype

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """Extents in memory, outermost first."""
        if len(self.shape) != 4:
            return self.shape
        n, c, h, w = self.shape
        block = self.layout.block
        top, left, bottom, right = self.layout.halo
        plane = (h + top + bottom, w + left + right)
        if block == 1:
            return (n, c, *plane)
        return (n, -(-c // block), *plane, block)

    @property
    def elements(self) -> int:
        """Number of elements in memory."""
        count = 1
        for extent in self.physical_shape:
            count *= extent
        return count

    @property
    def size_bytes(self) -> int:
        """Size in memory."""
        return self.elements * self.storage.size_bytes

    def address(self, index: tuple[Index, ...]) -> Index:
        """Return the position in memory, in elements, of a logical index."""
        if len(self.shape) != 4:
            return flatten(index, self.shape)
        n, c, y, x = index
        top, left, _, _ = self.layout.halo
        block = self.layout.block
        inside = (y + top, x + left)
        if block == 1:
            return flatten((n, c, *inside), self.physical_shape)
        if self.shape[1] <= block:
            return flatten((n, *inside, c), (self.shape[0], *self.physical_shape[2:]))
        return flatten((n, c // block, *inside, c % block), self.physical_shape)

    @property
    def strides(self) -> tuple[int, int, int, int]:
        """Elements from one batch, channel block, row and column to the next (rank 4)."""
        _, blocks, rows, columns, *rest = self.physical_shape
        column = rest[0] if rest else 1
        return blocks * rows * columns * column, rows * columns * column, columns * column, column
