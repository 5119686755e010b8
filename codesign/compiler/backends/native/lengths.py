"""Lengths that a tensor says: dyn.reshape and its kin; shape_of; sums down to another shape."""

from __future__ import annotations

from typing import Final

from codesign.compiler.backends.llvm.arithmetic import Arithmetic, memory_type
from codesign.compiler.backends.native.extents import Extents, ShapeWriter
from codesign.compiler.backends.native.views import Loop, View, element_at, strides_of
from codesign.dtypes import DType

FILLING: Final = frozenset({"dyn.full", "dyn.zeros", "dyn.ones", "dyn.arange"})
"""Operators whose result holds one number everywhere, or each place's own."""

TOLD: Final = frozenset({"dyn.reshape", "dyn.broadcast_to"}) | FILLING
"""Operators whose last operand is the shape of the result."""


def told_extents(
    name: str, data: Extents, told: str, dtype: DType, rank: int, shape: ShapeWriter
) -> Extents:
    """Return the extents that `rank` integers at `told` say, of a result made from `data`."""
    text = shape.text
    kind = memory_type(dtype)
    extents: list[str] = []
    for axis in range(rank):
        value = text.op(f"load {kind}, ptr {element_at(text, kind, told, str(axis))}")
        extents.append(Arithmetic(text).converted(value, dtype, DType.INT64))
    if name == "dyn.reshape":
        return _reshaped(data, extents, shape)
    for extent in extents:
        good = text.op(f"icmp sge i64 {extent}, 0")
        shape.require(good, f"{name} needs lengths that are not negative")
    if name == "dyn.broadcast_to":
        for one, other in zip(data, extents[rank - len(data) :], strict=True):
            same = text.op(f"icmp eq i64 {one}, {other}")
            is_one = text.op(f"icmp eq i64 {one}, 1")
            good = text.op(f"or i1 {same}, {is_one}")
            shape.require(good, "dyn.broadcast_to cannot reach the shape")
    return tuple(extents)


def _reshaped(data: Extents, extents: list[str], shape: ShapeWriter) -> Extents:
    """Replace the -1 among the lengths, if there is one, by what is left for it."""
    text = shape.text
    open_ones = [text.op(f"icmp eq i64 {extent}, -1") for extent in extents]
    known, count, good = "1", "0", "true"
    for extent, is_open in zip(extents, open_ones, strict=True):
        factor = text.op(f"select i1 {is_open}, i64 1, i64 {extent}")
        known = text.op(f"mul i64 {known}, {factor}")
        one = text.op(f"zext i1 {is_open} to i64")
        count = text.op(f"add i64 {count}, {one}")
        least = text.op(f"icmp sge i64 {extent}, -1")
        good = text.op(f"and i1 {good}, {least}")
    total = shape.product(data)
    nothing = text.op(f"icmp eq i64 {known}, 0")
    divisor = text.op(f"select i1 {nothing}, i64 1, i64 {known}")
    left = text.op(f"sdiv i64 {total}, {divisor}")
    any_open = text.op(f"icmp ne i64 {count}, 0")
    factor = text.op(f"select i1 {any_open}, i64 {left}, i64 1")
    found = text.op(f"mul i64 {known}, {factor}")
    fits = text.op(f"icmp eq i64 {found}, {total}")
    single = text.op(f"icmp ule i64 {count}, 1")
    ambiguous = text.op(f"and i1 {any_open}, {nothing}")
    clear = text.op(f"xor i1 {ambiguous}, true")
    for each in (fits, single, clear):
        good = text.op(f"and i1 {good}, {each}")
    shape.require(good, "dyn.reshape changes the number of elements")
    return tuple(
        text.op(f"select i1 {is_open}, i64 {left}, i64 {extent}")
        for extent, is_open in zip(extents, open_ones, strict=True)
    )


def collapsed(name: str, data: Extents, target: Extents, shape: ShapeWriter) -> tuple[View, View]:
    """Return the places of a sum down to `target`, and the terms of each."""
    text = shape.text
    strides = strides_of(text, data)
    extra = len(data) - len(target)
    inner = [Loop(*pair) for pair in zip(data[:extra], strides[:extra], strict=True)]
    outer = []
    for extent, kept, stride in zip(data[extra:], target, strides[extra:], strict=True):
        is_one = text.op(f"icmp eq i64 {kept}, 1")
        same = text.op(f"icmp eq i64 {kept}, {extent}")
        what = f"{name} sums to a shape that broadcasts to the argument's"
        shape.require(text.op(f"or i1 {is_one}, {same}"), what)
        outer.append(Loop(kept, text.op(f"select i1 {is_one}, i64 0, i64 {stride}")))
        inner.append(Loop(text.op(f"select i1 {is_one}, i64 {extent}, i64 1"), stride))
    return View("0", tuple(outer)), View("0", tuple(inner))
