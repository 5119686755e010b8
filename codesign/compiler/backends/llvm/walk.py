"""Walking weights forwards in one call and backwards in the next.

Weights that are read once a call and are larger than the second cache would leave it before they
are read again. Turned around, a walk begins with those that the last one left there. Results are
the same to the bit: a walk goes from output to output, and the order within a sum stays.
"""

from __future__ import annotations

from typing import Final

from codesign.compiler.backends.llvm.text import FunctionText

LARGE_BYTES: Final = 1 << 18
"""Weights from this size on may outgrow what a second cache has left for them."""

_TABLE: Final = 64
"""Walks that remember their direction; more than so many share."""


def next_direction(text: FunctionText, weight: str) -> str:
    """Write the turning around of a walk over weights; return 0 for forwards, -1 for backwards."""
    text.declarations.add(f"@turns = internal global [{_TABLE} x i64] zeroinitializer, align 64")
    address = text.op(f"ptrtoint ptr {weight} to i64")
    line = text.op(f"lshr i64 {address}, 6")
    number = text.op(f"and i64 {line}, {_TABLE - 1}")
    place = text.op(f"getelementptr i64, ptr @turns, i64 {number}")
    before = text.op(f"load atomic i64, ptr {place} monotonic, align 8")
    after = text.op(f"xor i64 {before}, -1")
    text.do(f"store atomic i64 {after}, ptr {place} monotonic, align 8")
    return before


def turned(text: FunctionText, index: str, count: int, direction: str) -> str:
    """Write the index-th place of `count` on a walk in a direction."""
    flipped = text.op(f"xor i64 {index}, {direction}")
    return text.op(f"add i64 {flipped}, {text.op(f'and i64 {direction}, {count}')}")
