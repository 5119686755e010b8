"""A warp's statements as LLVM's intrinsics for NVPTX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from codesign.compiler.backends.llvm.text import FunctionText
from codesign.ir.simt.matrix import Mma

_SHARED: Final = "addrspace(3)"
_GLOBAL: Final = "addrspace(1)"
_INFINITE: Final = "0x7FF0000000000000"
_TF32: Final = -0x2000
"""Mask of the bits that TF32 has."""

_INSTRUCTIONS: Final = {
    Mma.F16: "m16n8k16.row.col.f32.f32",
    Mma.TF32: "m16n8k8.row.col.tf32",
    Mma.SPLIT: "m16n8k8.row.col.tf32",
    Mma.BF16: "m16n8k16.row.col.bf16",
    Mma.S8: "m16n8k32.row.col.s8",
}


@final
@dataclass(frozen=True, slots=True)
class _Split:
    """Words of TF32: upper bits, the same or 0 where not finite, and what these leave."""

    high: list[str]
    finite: list[str]
    low: list[str]


def copy(text: FunctionText, target: str, source: str, size_bytes: int, read_bytes: str) -> None:
    """Write `cp.async`: whole lines of 16 bytes go past the first cache."""
    level = "cg" if size_bytes == 16 else "ca"
    whole = read_bytes == str(size_bytes)
    name = f"llvm.nvvm.cp.async.{level}.shared.global.{size_bytes}{'' if whole else '.s'}"
    kinds = [f"ptr {_SHARED}", f"ptr {_GLOBAL}", *([] if whole else ["i32"])]
    values = [_in(text, target, _SHARED), _in(text, source, _GLOBAL)]
    values += [] if whole else [read_bytes]
    _do(text, name, kinds, values)


def commit(text: FunctionText) -> None:
    """Write the end of a group."""
    _do(text, "llvm.nvvm.cp.async.commit.group", [], [])


def wait(text: FunctionText, pending: int) -> None:
    """Write the wait for groups."""
    _do(text, "llvm.nvvm.cp.async.wait.group", ["i32"], [str(pending)])


def matrices(text: FunctionText, source: str, count: int, *, transposed: bool) -> list[str]:
    """Write `ldmatrix`; return a word for each matrix."""
    note = ".trans" if transposed else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{note}.b16.p3"
    result = "i32" if count == 1 else f"{{{', '.join(['i32'] * count)}}}"
    pointer = f"ptr {_SHARED}"
    text.declarations.add(f"declare {result} @{name}({pointer})")
    found = text.op(f"call {result} @{name}({pointer} {_in(text, source, _SHARED)})")
    if count == 1:
        return [found]
    return [text.op(f"extractvalue {result} {found}, {place}") for place in range(count)]


def multiply(
    text: FunctionText, kind: Mma, sums: list[str], left: list[str], right: list[str]
) -> list[str]:
    """Write `mma`; return new sums."""
    match kind:
        case Mma.TF32:
            return _mma(text, kind, sums, _tf32(text, left), _tf32(text, right))
        case Mma.BF16:
            return _mma(text, kind, sums, _bf16(text, left), _bf16(text, right))
        case Mma.SPLIT:
            first, second = _split(text, left), _split(text, right)
            sums = _mma(text, kind, sums, first.finite, second.low)
            sums = _mma(text, kind, sums, first.low, second.finite)
            return _mma(text, kind, sums, first.high, second.high)
        case _:
            return _mma(text, kind, sums, left, right)


def exchange(text: FunctionText, word: str, mask: int) -> str:
    """Write `shfl.sync.bfly` of all lanes."""
    name = "llvm.nvvm.shfl.sync.bfly.i32"
    text.declarations.add(f"declare i32 @{name}(i32, i32, i32, i32)")
    return text.op(f"call i32 @{name}(i32 -1, i32 {word}, i32 {mask}, i32 31)")


def _mma(
    text: FunctionText, kind: Mma, sums: list[str], left: list[str], right: list[str]
) -> list[str]:
    factor = "<2 x half>" if kind is Mma.F16 else "i32"
    element = "i32" if kind is Mma.S8 else "float"
    name = f"llvm.nvvm.mma.{_INSTRUCTIONS[kind]}"
    kinds = [factor] * (len(left) + len(right)) + [element] * len(sums)
    result = f"{{{', '.join([element] * len(sums))}}}"
    text.declarations.add(f"declare {result} @{name}({', '.join(kinds)})")
    given = _arguments(kinds, [*left, *right, *sums])
    found = text.op(f"call {result} @{name}({given})")
    return [text.op(f"extractvalue {result} {found}, {place}") for place in range(len(sums))]


def _tf32(text: FunctionText, values: list[str]) -> list[str]:
    name = "llvm.nvvm.f2tf32.rna"
    text.declarations.add(f"declare i32 @{name}(float)")
    return [text.op(f"call i32 @{name}(float {value})") for value in values]


def _bf16(text: FunctionText, values: list[str]) -> list[str]:
    """Pack pairs; the instruction takes the upper half first."""
    name = "llvm.nvvm.ff2bf16x2.rn"
    text.declarations.add(f"declare <2 x bfloat> @{name}(float, float)")
    words = []
    for low, high in zip(values[::2], values[1::2], strict=True):
        pair = text.op(f"call <2 x bfloat> @{name}(float {high}, float {low})")
        words.append(text.op(f"bitcast <2 x bfloat> {pair} to i32"))
    return words


def _split(text: FunctionText, values: list[str]) -> _Split:
    found = _Split([], [], [])
    rests = []
    for value in values:
        bits = text.op(f"bitcast float {value} to i32")
        high = text.op(f"and i32 {bits}, {_TF32}")
        upper = text.op(f"bitcast i32 {high} to float")
        rest = text.op(f"fsub float {value}, {upper}")
        size = text.call("float", "llvm.fabs.f32", ("float", value))
        is_finite = text.op(f"fcmp olt float {size}, {_INFINITE}")
        rests.append(text.op(f"select i1 {is_finite}, float {rest}, float 0.0"))
        found.finite.append(text.op(f"select i1 {is_finite}, i32 {high}, i32 0"))
        found.high.append(high)
    found.low.extend(_tf32(text, rests))
    return found


def _in(text: FunctionText, pointer: str, space: str) -> str:
    return text.op(f"addrspacecast ptr {pointer} to ptr {space}")


def _do(text: FunctionText, name: str, kinds: Sequence[str], values: Sequence[str]) -> None:
    text.declarations.add(f"declare void @{name}({', '.join(kinds)})")
    text.do(f"call void @{name}({_arguments(kinds, values)})")


def _arguments(kinds: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{kind} {value}" for kind, value in zip(kinds, values, strict=True))
