"""How a contraction is cut into tiles that fit the vector registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

_FIRST_CACHE_BYTES: Final = 24 << 10
"""The part of the first cache that weights may fill."""

_STREAM_BYTES: Final = 20
"""Bytes a cycle from the second cache."""

_ROW_STREAM_BYTES: Final = 28
"""The same where one pixel is multiplied with each weight: little else is loaded meanwhile."""

_INTEGER_SPARE: Final = 2
"""Registers for products on their way to their sum, which a fused multiply-add does not need."""


@final
@dataclass(frozen=True, slots=True)
class Tile:
    """`pixels` of a row times `vectors` of channels are accumulated at once."""

    pixels: int
    vectors: int


@final
@dataclass(frozen=True, slots=True)
class Reduction:
    """What is summed in a tile: number of steps, and whether in int16 pairs."""

    steps: int
    is_integer: bool
    vector_bytes: int


def choose_tile(pixels: int, vectors: int, registers: int, reduction: Reduction) -> Tile:
    """Return the tile that takes the fewest cycles for a row of pixels and all channel vectors.

    The estimate: two multiply-adds and two loads a cycle; a float sum waits four cycles for itself;
    weights that do not fit the first cache come at so many bytes a cycle.
    """
    spare = _INTEGER_SPARE if reduction.is_integer else 0
    candidates = [
        Tile(p, v)
        for v in range(1, min(vectors, 8) + 1)
        for p in range(1, min(pixels, registers - 2) + 1)
        if p * v + 1 + (v if p > 1 else 0) + spare <= registers
    ]
    return min(candidates, key=lambda tile: _cycles(tile, pixels, vectors, reduction))


def split_evenly(total: int, most: int) -> tuple[tuple[int, int], ...]:
    """Cut a length into as few pieces of at most `most` as there can be, of sizes that differ by 1.

    Returns pairs of (count, size), larger pieces first.

    Examples
    --------
    >>> split_evenly(7, 6)
    ((1, 4), (1, 3))
    """
    if total == 0:
        return ()
    pieces = -(-total // most)
    size, larger = divmod(total, pieces)
    parts = ((larger, size + 1), (pieces - larger, size))
    return tuple(part for part in parts if part[0])


def _cycles(tile: Tile, pixels: int, vectors: int, reduction: Reduction) -> tuple[float, int]:
    full, rest = divmod(vectors, tile.vectors)
    total = 0.0
    for count, width in split_evenly(pixels, tile.pixels):
        total += count * full * _step(width, tile.vectors, reduction)
        total += count * _step(width, rest, reduction) if rest else 0.0
    return total, -tile.pixels


def _step(pixels: int, vectors: int, reduction: Reduction) -> float:
    multiplies = pixels * vectors / 2
    loads = (pixels + vectors) / 2
    latency = 1.0 if reduction.is_integer else 4.0
    weights = vectors * reduction.vector_bytes
    rate = _ROW_STREAM_BYTES if pixels == 1 else _STREAM_BYTES
    stream = weights / rate if weights * reduction.steps > _FIRST_CACHE_BYTES else 0.0
    return max(multiplies, loads, latency, stream) + 0.25
