"""Latencies and buffer sizes of the units: the constants of docs/microarchitecture.md.

A stage is one cycle; stage 0 of a pipeline is the cycle in which the work is issued. A pipeline of
latency L writes its result at the end of its stage L - 1.
"""

from __future__ import annotations

from typing import Final

from codesign.accel.config import AccelConfig

READ_LEAD: Final = 1
"""Least cycles from a read burst's address to its first beat."""

WRITE_LEAD: Final = 4
"""Cycles from a write burst's address to its first beat: the store unit has its data by then."""

FETCH_CHUNK: Final = 4
"""Instructions that one burst of the fetch unit brings at most."""

FETCH_BUFFER: Final = 8
"""Instructions that the fetch unit's buffer holds."""

ADDER_LEVELS: Final = 2
"""Levels of the gemm array's adder tree between two registers."""

REDUCE_STAGE: Final = 4
"""Stage of the vector unit that combines the reducing iterations, one a cycle."""


def gemm_tree_stages(config: AccelConfig) -> int:
    """Return the registered stages of the adder tree over `block_in` products."""
    levels = (config.block_in - 1).bit_length()
    return -(-levels // ADDER_LEVELS)


def gemm_latency(config: AccelConfig) -> int:
    """Return GEMM_LATENCY, the cycles from the issue of a tile product to its visibility.

    Stages
        0 address of inp and wgt; 1 their tiles; 2 products; then `gemm_tree_stages` of sums;
        then one stage adding to the accumulator, and one writing it.
        The accumulator is read two stages before the addition.
    """
    return 5 + gemm_tree_stages(config)


def vector_latency(config: AccelConfig) -> int:
    """Return VECTOR_LATENCY, the cycles from the last issue to the visibility of its result.

    Stages
        0 address of x and y; 1 their tiles, slice of lanes; 2 source, zero point; 3 x op y;
        4 reduction; 5 bias; 6 partial products with the multiplier; 7 their sum and the residual;
        8 coarse shift; 9 fine shift, rounding, saturation; 10 zero point, clip;
        with tables: 11 lookup, 12 its result; last: write.
    """
    return 12 + (2 if config.has_lut else 0)


def fetch_chunk_beats(config: AccelConfig, instruction_beats: int) -> int:
    """Return the beats of the fetch unit's longest burst: a power of two."""
    return min(config.burst_beats, FETCH_CHUNK * instruction_beats)


def fetch_buffer_beats(instruction_beats: int) -> int:
    """Return the beats that the fetch unit's buffer holds: a power of two."""
    return FETCH_BUFFER * instruction_beats
