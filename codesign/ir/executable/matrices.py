"""How stacks of matrices lie as operands and results of products on the array.

The host lays them out: a product of two tensors becomes a layer of as many groups as the stack has
matrices. Columns and rows of each matrix are filled up with zeros to whole tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from codesign.dtypes import Array

Four: TypeAlias = tuple[int, int, int, int]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Matrices [..., rows, columns] side by side along channels, rows as samples and positions.

    The packed tensor is [samples, count * columns, rows / samples, 1]: row r of a matrix is
    position r // samples of sample r % samples. Columns are filled up to a multiple of `block`.
    """

    samples: int
    block: int

    def shape(self, shape: tuple[int, ...]) -> Four:
        """Return the packed shape of a tensor of `shape`."""
        *stack, rows, columns = shape
        wide = -(-columns // self.block) * self.block
        return self.samples, math.prod(stack) * wide, -(-rows // self.samples), 1

    def pack(self, data: Array) -> Array:
        """Return the packed tensor."""
        *_, rows, columns = data.shape
        samples, channels, positions, _ = self.shape(data.shape)
        matrices = data.reshape(-1, rows, columns)
        count = len(matrices)
        full = np.zeros((count, positions * samples, channels // count), np.int8)
        full[:, :rows, :columns] = matrices
        split = full.reshape(count, positions, samples, -1)
        return split.transpose(2, 0, 3, 1).reshape(samples, channels, positions, 1)

    def unpack(self, packed: Array, shape: tuple[int, ...]) -> Array:
        """Return the tensor of `shape` that `pack` made `packed` from."""
        *stack, rows, columns = shape
        samples, _, positions, _ = packed.shape
        split = packed.reshape(samples, math.prod(stack), -1, positions)
        full = split.transpose(1, 3, 0, 2).reshape(math.prod(stack), positions * samples, -1)
        return np.ascontiguousarray(full[:, :rows, :columns]).reshape(shape)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """Matrices [..., inner, columns] as weights: each transposed, one below the other.

    The packed tensor is [count * columns, inner, 1, 1]; columns are filled up to a multiple of
    `rows`.
    """

    rows: int

    def shape(self, shape: tuple[int, ...]) -> Four:
        """Return the packed shape of a tensor of `shape`."""
        *stack, inner, columns = shape
        return math.prod(stack) * -(-columns // self.rows) * self.rows, inner, 1, 1

    def pack(self, data: Array) -> Array:
        """Return the packed tensor."""
        *_, inner, columns = data.shape
        packed = self.shape(data.shape)
        matrices = data.reshape(-1, inner, columns)
        full = np.zeros((len(matrices), packed[0] // len(matrices), inner), np.int8)
        full[:, :columns] = matrices.transpose(0, 2, 1)
        return full.reshape(packed)
