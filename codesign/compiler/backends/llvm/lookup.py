"""A table of 256 bytes looked up for eight bytes at once, in registers.

The table is 16 pieces of 16 bytes; one shuffle looks into two of them, by the low four bits. The
high bits choose between the shuffles' results, a bit a level.
"""

from __future__ import annotations

from codesign.compiler.backends.llvm.target import CpuTarget
from codesign.compiler.backends.llvm.text import FunctionText

_WIDE = "<32 x i8>"
_NARROW = "<8 x i8>"


def has_byte_lookup(target: CpuTarget, lanes: int) -> bool:
    """Whether `byte_lookup` can be written for vectors of so many lanes."""
    return lanes == 8 and target.has("avx2")


def byte_lookup(text: FunctionText, table: str, value: str) -> str:
    """Write `table[value + 128]` for `<8 x i8>` signed values; `table` points to 256 bytes."""
    places = text.op(f"xor {_NARROW} {value}, splat (i8 -128)")
    order = ", ".join(f"i32 {lane % 8}" for lane in range(32))
    spread = text.op(f"shufflevector {_NARROW} {places}, {_NARROW} poison, <32 x i32> <{order}>")
    low = text.op(f"and {_WIDE} {spread}, splat (i8 15)")
    found = []
    for piece in range(8):
        pointer = text.op(f"getelementptr i8, ptr {table}, i64 {32 * piece}")
        part = text.op(f"load {_WIDE}, ptr {pointer}, align 1")
        found.append(text.call(_WIDE, "llvm.x86.avx2.pshuf.b", (_WIDE, part), (_WIDE, low)))
    for bit in (5, 6, 7):
        mask = _moved_up(text, spread, 7 - bit)
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [_chosen(text, zero, one, mask) for zero, one in pairs]
    halves = []
    for first in (0, 16):
        lanes = ", ".join(f"i32 {first + lane % 16}" for lane in range(32))
        halves.append(
            text.op(f"shufflevector {_WIDE} {found[0]}, {_WIDE} poison, <32 x i32> <{lanes}>")
        )
    both = _chosen(text, halves[0], halves[1], _moved_up(text, spread, 3))
    front = ", ".join(f"i32 {lane}" for lane in range(8))
    return text.op(f"shufflevector {_WIDE} {both}, {_WIDE} poison, <8 x i32> <{front}>")


def _moved_up(text: FunctionText, value: str, bits: int) -> str:
    """Bring a lower bit to the top of its byte; the other bits have no meaning after it."""
    if bits == 0:
        return value
    words = text.op(f"bitcast {_WIDE} {value} to <16 x i16>")
    moved = text.op(f"shl <16 x i16> {words}, splat (i16 {bits})")
    return text.op(f"bitcast <16 x i16> {moved} to {_WIDE}")


def _chosen(text: FunctionText, zero: str, one: str, mask: str) -> str:
    """Take `one` where the top bit of the mask's byte is set."""
    return text.call(_WIDE, "llvm.x86.avx2.pblendvb", (_WIDE, zero), (_WIDE, one), (_WIDE, mask))
