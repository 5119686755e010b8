"""Random choices, random types and random arrays, all from one seeded generator."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, TypeVar, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.types import TensorType

T = TypeVar("T")

DTYPES: Final = (
    *(DType.FLOAT32,) * 7,
    *(DType.INT32,) * 4,
    *(DType.BOOL,) * 2,
    *DType,
)
"""Every element type, the usual ones more often."""

_DIMS: Final = (0, *(1, 2) * 4, 2, 2, *(3, 4) * 2, 3, 3, 3, 5, 7)

_FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 6.0)

_INTEGERS: Final = (0, 1, 2, 3, 5, 7, 100)


@final
class Draw:
    """A source of random choices; equal seeds give equal choices."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, count: int) -> int:
        """Return an integer from 0 to count - 1."""
        return self._random.randrange(count)

    def between(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return self._random.randint(low, high)

    def chance(self, probability: float) -> bool:
        """Return True so often."""
        return self._random.random() < probability

    def one_of(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self._random.randrange(len(choices))]

    def weighted(self, choices: Sequence[T], weights: Sequence[int]) -> T:
        """Return one of the choices, in proportion to its weight."""
        return self._random.choices(choices, weights)[0]

    def permutation(self, count: int) -> tuple[int, ...]:
        """Return the integers below count in random order."""
        return tuple(self._random.sample(range(count), count))

    def parts(self, size: int, count: int) -> list[int]:
        """Return `count` sizes that add up to at most `size`."""
        cuts = sorted(self._random.randint(0, max(size, 0)) for _ in range(count - 1))
        edges = [0, *cuts, max(size, 0)]
        return [edges[index + 1] - edges[index] for index in range(count)]

    def numpy(self) -> np.random.Generator:
        """Return a NumPy generator that continues from here."""
        return np.random.default_rng(self._random.getrandbits(32))

    def dim(self) -> int:
        """Return a length; 0 and 1 are among them."""
        return self.one_of(_DIMS)

    def tensor_type(self, dtype: DType | None = None) -> TensorType:
        """Return a tensor type of rank 0 to 3 with few elements."""
        rank = self.one_of((0, 0, 1, 1, 2, 2, 3))
        chosen = self.one_of(DTYPES) if dtype is None else dtype
        return TensorType(tuple(self.dim() for _ in range(rank)), chosen)

    def array(self, type_: TensorType) -> Array:
        """Return an array of a type: small numbers, and among them those at the edges."""
        shape = type_.static_shape
        count = int(np.prod(shape, dtype=np.int64))
        edges = 0.3 if self.chance(0.2) else 0.0
        values = [self._element(type_.dtype, edges) for _ in range(count)]
        with np.errstate(all="ignore"):
            return np.asarray(values, dtype=object).astype(type_.dtype.numpy).reshape(shape)

    def _element(self, dtype: DType, edges: float) -> float | int | bool:
        if dtype is DType.BOOL:
            return self.chance(0.5)
        if dtype.is_float:
            return self._edge(dtype) if self.chance(edges) else self._float(dtype)
        if self.chance(edges):
            return self.one_of((dtype.minimum, dtype.maximum, dtype.maximum - 1))
        value = self.one_of(_INTEGERS)
        return -value if dtype.minimum < 0 and self.chance(0.4) else value

    def _edge(self, dtype: DType) -> float:
        limits = np.finfo(dtype.numpy)
        sizes = (limits.max, limits.tiny, limits.smallest_subnormal, limits.eps)
        return float(self.one_of((*sizes, np.nan, np.inf, -np.inf, -0.0)))

    def _float(self, dtype: DType) -> float:
        match self.below(4):
            case 0:
                return self.one_of(_FLOATS)
            case 1:
                return self.between(-8, 8) / 4
            case _:
                return float(dtype.numpy.type(self._random.gauss(0.0, 1.5)))
