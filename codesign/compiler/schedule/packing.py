"""Weights in the order in which a hand-blocked kernel reads them.

For each group, for each run of `Tile.vectors` channel vectors: [channel block][row][column][lane]
of the window, then the run's output channels side by side. Lanes follow the data's layout. For
int16 arithmetic two lanes are read at once: [… lane pair][output channel][2].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.dtypes import Array


@final
@dataclass(frozen=True, slots=True)
class Channels:
    """How a group's input channels are walked: full blocks of `lanes`, then a rest."""

    blocks: int
    lanes: int
    rest: int


def channels_of(per_group: int, block: int) -> Channels:
    """Return the walk over channels of data with this block (1: plain)."""
    if block == 1 or block >= per_group:
        return Channels(1, per_group, 0)
    return Channels(per_group // block, block, per_group % block)


def vector_runs(vectors: int, run: int) -> tuple[int, ...]:
    """Return the sizes of the runs of vectors of one group, in order."""
    full, rest = divmod(vectors, run)
    return (run,) * full + ((rest,) if rest else ())


def pack_contraction(
    weight: Array, *, groups: int, channels: Channels, lanes: int, run: int, pairs: bool
) -> Array:
    """Return weights `(out, in, rows, columns)` as a flat array in reading order.

    With `pairs`, elements become int16 and an odd number of lanes is filled up with a zero.
    """
    outputs = weight.shape[0] // groups
    vectors = -(-outputs // lanes)
    pieces: list[Array] = []
    for group in range(groups):
        part = weight[group * outputs : (group + 1) * outputs]
        rows = _reduction_rows(part, channels, pairs)
        padded = np.zeros((*rows.shape[:-1], vectors * lanes), dtype=rows.dtype)
        padded[..., :outputs] = rows
        first = 0
        for size in vector_runs(vectors, run):
            columns = padded[..., first * lanes : (first + size) * lanes]
            piece = np.swapaxes(columns, -1, -2) if pairs else columns
            pieces.append(np.ascontiguousarray(piece).reshape(-1))
            first += size
    return np.concatenate(pieces) if pieces else weight.reshape(-1)


def _reduction_rows(part: Array, channels: Channels, pairs: bool) -> Array:
    """`(k, out)` in reading order, or `(k / 2, 2, out)` with pairs."""
    split = channels.blocks * channels.lanes
    outputs, _, rows, columns = part.shape
    full = part[:, :split].reshape(outputs, channels.blocks, channels.lanes, rows, columns)
    ordered = [np.transpose(full, (1, 3, 4, 2, 0))]
    if channels.rest:
        ordered.append(np.transpose(part[:, split:], (2, 3, 1, 0))[None])
    flat: list[Array] = []
    for block in ordered:
        if pairs:
            lanes = block.shape[3]
            even = np.zeros((*block.shape[:3], lanes + lanes % 2, outputs), dtype=np.int16)
            even[..., :lanes, :] = block
            flat.append(even.reshape(-1, 2, outputs))
        else:
            flat.append(block.reshape(-1, outputs))
    return np.concatenate(flat)


def pack_depthwise(weight: Array, lanes: int, *, pairs: bool = True) -> Array:
    """Return weights `(channels, 1, rows, columns)` as [channel block][row][column][lane].

    Integers become int16; with `pairs`, pairs of them, the weight and zero: [… lane][2].
    """
    channels, _, rows, columns = weight.shape
    blocks = -(-channels // lanes)
    is_integer = weight.dtype.kind == "i"
    kind = np.int16 if is_integer else weight.dtype
    padded = np.zeros((blocks * lanes, rows, columns), dtype=kind)
    padded[:channels] = weight[:, 0]
    ordered = padded.reshape(blocks, lanes, rows, columns).transpose(0, 2, 3, 1)
    if is_integer and pairs:
        ordered = np.stack([ordered, np.zeros_like(ordered)], axis=-1)
    return np.ascontiguousarray(ordered).reshape(-1)
