"""Products of int16 in pairs, the exact way to multiply bytes: sums are of 32 bits."""

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


def multiply_pairs(text: FunctionText, target: CpuTarget, lanes: int, lhs: str, rhs: str) -> str:
    """Write sums of neighbouring products of int16: `2 * lanes` elements to `lanes` of int32."""
    wide, narrow = f"<{2 * lanes} x i16>", f"<{lanes} x i32>"
    name = _PAIR_INSTRUCTIONS.get(lanes)
    if name is not None and target.has(name[0]):
        return text.call(narrow, name[1], (wide, lhs), (wide, rhs))
    double = f"<{2 * lanes} x i32>"
    first = text.op(f"sext {wide} {lhs} to {double}")
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
