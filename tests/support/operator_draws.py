"""What random calls of operators are made of: a case, and random tensors and shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs

Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """One call: its arguments (a tuple stands for a Relay tuple) and its attributes."""

    args: tuple[Array | tuple[Array, ...], ...]
    attrs: Attrs | None = None


def floats(rng: Rng, *shape: int) -> Array:
    return np.asarray(rng.standard_normal(shape), np.float32)


def int8s(rng: Rng, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def random_shape(rng: Rng, rank: int, low: int = 0) -> tuple[int, ...]:
    return tuple(int(dim) for dim in rng.integers(low, 5, rank))


def random_pair(rng: Rng, low: int, high: int) -> tuple[int, int]:
    first, second = rng.integers(low, high, 2)
    return int(first), int(second)


def fixed(attrs: Attrs | None, *shapes: tuple[int, ...]) -> Callable[[Rng], Case]:
    return lambda rng: Case(tuple(floats(rng, *shape) for shape in shapes), attrs)
