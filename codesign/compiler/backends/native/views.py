"""Tensors read in another order, or several times: loops over offsets into dense memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from codesign.compiler.backends.llvm.arithmetic import Arithmetic, element_type, memory_type
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.native.extents import Extents
from codesign.dtypes import DType
from codesign.ir.tensor.compute import Fn


@final
@dataclass(frozen=True, slots=True)
class Loop:
    """`length` turns, each `stride` elements behind the one before; registers or numbers."""

    length: str
    stride: str


@final
@dataclass(frozen=True, slots=True)
class View:
    """The elements of a tensor from `offset` on, over loops, the last one innermost."""

    offset: str
    loops: tuple[Loop, ...]


def strides_of(text: FunctionText, extents: Extents) -> list[str]:
    """Return the elements from one index to the next on each axis of a dense tensor."""
    strides = ["1"] * len(extents)
    for axis in reversed(range(len(extents) - 1)):
        strides[axis] = text.op(f"mul i64 {strides[axis + 1]}, {extents[axis + 1]}")
    return strides


def copy_view(text: FunctionText, target: str, source: str, view: View, dtype: DType) -> None:
    """Copy what a view reads to dense memory."""
    kind = memory_type(dtype)

    def one(offset: str, place: str) -> str:
        value = text.op(f"load {kind}, ptr {element_at(text, kind, source, offset)}")
        text.do(f"store {kind} {value}, ptr {element_at(text, kind, target, place)}")
        return text.op(f"add i64 {place}, 1")

    _over(text, view, "i64", "0", one)


def sum_view(
    text: FunctionText, target: str, source: str, outer: View, inner: View, dtype: DType
) -> None:
    """Store for each place of one view the sum of another one from there on.

    Floating-point numbers are added in float64 and rounded once.
    """
    kind = memory_type(dtype)
    wide = DType.FLOAT64 if dtype.is_float else dtype
    values = Arithmetic(text)

    def one(begin: str, place: str) -> str:
        def term(offset: str, total: str) -> str:
            value = text.op(f"load {kind}, ptr {element_at(text, kind, source, offset)}")
            return values.binary(Fn.ADD, total, values.converted(value, dtype, wide), wide)

        zero = values.literal(0, wide)
        view = View(begin, inner.loops)
        total = values.converted(_over(text, view, element_type(wide), zero, term), wide, dtype)
        text.do(f"store {kind} {total}, ptr {element_at(text, kind, target, place)}")
        return text.op(f"add i64 {place}, 1")

    _over(text, outer, "i64", "0", one)


def _over(
    text: FunctionText, view: View, kind: str, initial: str, one: Callable[[str, str], str]
) -> str:
    """Write loops; `one(offset, carried)` gives what the next turn gets. Return the last one."""

    def level(loops: Sequence[Loop], offset: str, carried: str) -> str:
        if not loops:
            return one(offset, carried)
        number = -2 - len(text.extents)
        text.extents[number] = loops[0].length
        with text.loop(number, ((kind, carried),)) as (index, state):
            moved = text.op(f"mul i64 {index}, {loops[0].stride}")
            there = text.op(f"add i64 {offset}, {moved}")
            state.next[0] = level(loops[1:], there, state.current[0])
        return state.current[0]

    return level(view.loops, view.offset, initial)


def element_at(text: FunctionText, kind: str, base: str, place: str) -> str:
    """Return the pointer to an element."""
    return text.op(f"getelementptr {kind}, ptr {base}, i64 {place}")
