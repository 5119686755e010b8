"""Sums of two neighbouring products: of int16 to int32, and of bytes to int16.

Bytes are unsigned on the left and signed on the right, of magnitudes up to 64: sums of two such
products fit 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codesign.compiler.backends.llvm.target import CpuTarget
from codesign.compiler.backends.llvm.text import FunctionText

_PAIR_INSTRUCTIONS: Final[Mapping[int, tuple[str, str]]] = {
    4: ("sse2", "llvm.x86.sse2.pmadd.wd"),
    8: ("avx2", "llvm.x86.avx2.pmadd.wd"),
    16: ("avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
}
"""Feature and instruction by lanes of the result."""


_BYTE_INSTRUCTIONS: Final[Mapping[int, tuple[str, str]]] = {
    8: ("ssse3", "llvm.x86.ssse3.pmadd.ub.sw.128"),
    16: ("avx2", "llvm.x86.avx2.pmadd.ub.sw"),
    32: ("avx512bw", "llvm.x86.avx512.pmaddubs.w.512"),
}


def multiply_pairs(text: FunctionText, target: CpuTarget, lanes: int, lhs: str, rhs: str) -> str:
    """Write sums of neighbouring products of int16: `2 * lanes` elements to `lanes` of int32."""
    named = _PAIR_INSTRUCTIONS.get(lanes)
    return _multiplied(text, target, (lanes, "i16", "i32"), (lhs, rhs), named, "sext")


def multiply_bytes(text: FunctionText, target: CpuTarget, lanes: int, lhs: str, rhs: str) -> str:
    """Write sums of neighbouring products of bytes: `2 * lanes` elements to `lanes` of int16."""
    named = _BYTE_INSTRUCTIONS.get(lanes)
    return _multiplied(text, target, (lanes, "i8", "i16"), (lhs, rhs), named, "zext")


def _multiplied(
    text: FunctionText,
    target: CpuTarget,
    kinds: tuple[int, str, str],
    operands: tuple[str, str],
    named: tuple[str, str] | None,
    widen: str,
) -> str:
    """Write sums of two products by an instruction that is named, or one by one."""
    lanes, element, total = kinds
    lhs, rhs = operands
    wide, narrow = f"<{2 * lanes} x {element}>", f"<{lanes} x {total}>"
    if named is not None and target.has(named[0]):
        return text.call(narrow, named[1], (wide, lhs), (wide, rhs))
    double = f"<{2 * lanes} x {total}>"
    first = text.op(f"{widen} {wide} {lhs} to {double}")
    second = text.op(f"sext {wide} {rhs} to {double}")
    products = text.op(f"mul {double} {first}, {second}")
    halves = []
    for parity in (0, 1):
        places = ", ".join(f"i32 {2 * lane + parity}" for lane in range(lanes))
        halves.append(
            text.op(
                f"shufflevector {double} {products}, {double} poison, <{lanes} x i32> <{places}>"
            )
        )
    return text.op(f"add {narrow} {halves[0]}, {halves[1]}")
