"""How a contraction is cut into tiles that fit the vector registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Tile:
    """`pixels` of a row times `vectors` of channels are accumulated at once."""

    pixels: int
    vectors: int


def choose_tile(pixels: int, vectors: int, registers: int) -> Tile:
    """Return the tile that takes the fewest cycles for a row of pixels and all channel vectors.

    The estimate: two multiply-adds, two loads a cycle, and a latency of four cycles that only eight
    accumulators hide.
    """
    candidates = [
        Tile(p, v)
        for v in range(1, min(vectors, 8) + 1)
        for p in range(1, min(pixels, registers - 2) + 1)
        if p * v + 1 + (v if p > 1 else 0) <= registers
    ]
    return min(candidates, key=lambda tile: _cycles(tile, pixels, vectors))


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


def _cycles(tile: Tile, pixels: int, vectors: int) -> tuple[float, int]:
    full, rest = divmod(vectors, tile.vectors)
    total = 0.0
    for count, width in split_evenly(pixels, tile.pixels):
        total += count * full * _step(width, tile.vectors)
        total += count * _step(width, rest) if rest else 0.0
    return total, tile.pixels


def _step(pixels: int, vectors: int) -> float:
    multiplies = pixels * vectors / 2
    loads = (pixels + vectors) / 2
    return max(multiplies, loads, 4.0) + 0.25
