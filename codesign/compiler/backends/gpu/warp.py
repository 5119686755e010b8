"""What a warp's statements do, on arrays of (elements, lanes); see `ir.simt.kernel`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from codesign.dtypes import Array
from codesign.ir.simt.matrix import WARP, Mma, Place

_ROW_BYTES = 16
_GROUP = np.arange(WARP) // 4
_TURN = np.arange(WARP) % 4


def matrix_elements(rows: Array, size_bytes: int, *, transposed: bool) -> Array:
    """Return where the elements lie that lanes get of matrices.

    `rows[warp, matrix, row]` is where a row of 16 bytes begins; the result is (elements, lanes),
    the elements of the first matrix first.
    """
    warps, count, _ = rows.shape
    if transposed:
        assert size_bytes == 2, "only elements of 2 bytes are transposed"
        found = [rows[:, :, 2 * _TURN + each] + _GROUP for each in range(2)]
    else:
        per_lane = 4 // size_bytes
        found = [rows[:, :, _GROUP] + _TURN * per_lane + each for each in range(per_lane)]
    # (element of the matrix, warp, matrix, lane) to (matrix, element, warp, lane)
    stacked = np.stack(found).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(stacked).reshape(count * len(found), warps * WARP)


def row_elements(size_bytes: int) -> int:
    """Return the elements of a matrix' row."""
    return _ROW_BYTES // size_bytes


def multiplied(kind: Mma, sums: Array, left: Array, right: Array) -> Array:
    """Return new sums; all are (elements, lanes)."""
    shape = kind.shape
    a = _gathered(left, _places(kind.left_place, kind.left_elements, shape.k), (shape.m, shape.k))
    b = _gathered(
        right, _places(kind.right_place, kind.right_elements, shape.n), (shape.k, shape.n)
    )
    if kind is Mma.S8:
        product = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    else:
        product = sum(
            (np.matmul(x.astype(np.float64), y.astype(np.float64)) for x, y in _terms(kind, a, b)),
            np.zeros(()),
        )
    where = _places(kind.sums_place, kind.sums_elements, shape.n)
    flat = product.reshape(len(product), -1)[:, where]  # (warp, element, lane)
    added = flat.transpose(1, 0, 2).reshape(sums.shape)
    if kind is Mma.S8:
        return np.asarray((sums.astype(np.int64) + added).astype(np.int32))
    return np.asarray((sums.astype(np.float64) + added).astype(np.float32))


def exchanged(values: Array, mask: int) -> Array:
    """Return for each lane the value of the lane whose number differs by `mask`."""
    lanes = np.arange(WARP) ^ mask
    return np.asarray(values.reshape(-1, WARP)[:, lanes].reshape(-1))


def rounded(values: Array, bits: int) -> Array:
    """Return float32 with so many bits of significand, halves away from zero; NaN stays."""
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    dropped = np.uint32(24 - bits)
    half = np.uint32(1) << (dropped - np.uint32(1))
    nearest = ((words + half) >> dropped) << dropped
    return np.where(np.isfinite(values), nearest.view(np.float32), values)


def _half_even(values: Array) -> Array:
    """Return float32 rounded to the nearest bfloat16, halves to even."""
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = (words >> np.uint32(16)) & np.uint32(1)
    nearest = ((words + np.uint32(0x7FFF) + odd) >> np.uint32(16)) << np.uint32(16)
    return np.where(np.isnan(values), values, nearest.view(np.float32))


def _terms(kind: Mma, a: Array, b: Array) -> list[tuple[Array, Array]]:
    match kind:
        case Mma.TF32:
            return [(rounded(a, 11), rounded(b, 11))]
        case Mma.BF16:
            return [(_half_even(a), _half_even(b))]
        case Mma.SPLIT:
            (high_a, finite_a, low_a), (high_b, finite_b, low_b) = _split(a), _split(b)
            return [(finite_a, low_b), (low_a, finite_b), (high_a, high_b)]
        case _:
            return [(a, b)]


def _split(values: Array) -> tuple[Array, Array, Array]:
    """Return the upper bits of float32, the same or 0 where it is not finite, and the rest."""
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    high = (words & np.uint32(0xFFFFE000)).view(np.float32)
    finite = np.where(np.isfinite(values), high, np.float32(0))
    low = np.where(np.isfinite(values), values, finite) - finite
    return np.where(np.isnan(values), values, high), finite, rounded(low, 11)


def _gathered(fragments: Array, where: Array, shape: tuple[int, int]) -> Array:
    """Return matrices (warp, *shape) of fragments (element, lane) whose elements lie at `where`."""
    elements = len(fragments)
    by_warp = fragments.reshape(elements, -1, WARP).transpose(1, 0, 2)
    matrices = np.empty((len(by_warp), shape[0] * shape[1]), fragments.dtype)
    matrices[:, where] = by_warp
    return matrices.reshape(len(by_warp), *shape)


@cache
def _places(place: Callable[[int, int], Place], elements: int, columns: int) -> Array:
    """Return row-major positions (element, lane) of a fragment's elements."""
    pairs = [[place(lane, each) for lane in range(WARP)] for each in range(elements)]
    return np.array([[row * columns + column for row, column in line] for line in pairs])
