"""Operators that take pieces of a tensor, or give it again and again, as views of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codesign.compiler.backends.native.extents import Extents, ShapeWriter
from codesign.compiler.backends.native.views import Loop, View, strides_of
from codesign.ir.control.program import Operator
from codesign.ops.axis import AxisAttrs
from codesign.ops.repeating import RepeatAttrs, TileAttrs
from codesign.ops.split import SplitAttrs
from codesign.ops.strided_slice import StridedSliceAttrs, slices

VIEWING: Final = frozenset({"split", "strided_slice", "reverse", "repeat", "tile"})
"""Operators whose results are views of their operand."""


def views(
    operator: Operator, extents: Extents, shape: ShapeWriter
) -> tuple[tuple[Extents, View], ...]:
    """Return for each result its extents, and where its elements lie in the operand."""
    strides = strides_of(shape.text, extents)
    match operator.attrs:
        case SplitAttrs() as attrs:
            return _split(attrs, extents, strides, shape)
        case StridedSliceAttrs() as attrs:
            return (_slice(attrs, extents, strides, shape),)
        case RepeatAttrs(repeats=count, axis=axis):
            return (_repeat(count, axis % len(extents), extents, strides, shape),)
        case TileAttrs(reps=reps):
            return (_tile(reps, extents, strides, shape),)
        case AxisAttrs(axis=axis):
            return (_reverse(axis % len(extents), extents, strides, shape),)
        case _:
            raise AssertionError(f"{operator.operator} has no views")


def _loops(extents: Sequence[str], strides: Sequence[str]) -> list[Loop]:
    return [Loop(*pair) for pair in zip(extents, strides, strict=True)]


def _reverse(
    axis: int, extents: Extents, strides: list[str], shape: ShapeWriter
) -> tuple[Extents, View]:
    text = shape.text
    loops = _loops(extents, strides)
    last = text.op(f"sub i64 {extents[axis]}, 1")
    offset = text.op(f"mul i64 {last}, {strides[axis]}")
    loops[axis] = Loop(extents[axis], text.op(f"sub i64 0, {strides[axis]}"))
    return extents, View(offset, tuple(loops))


def _repeat(
    count: int, axis: int, extents: Extents, strides: list[str], shape: ShapeWriter
) -> tuple[Extents, View]:
    loops = _loops(extents, strides)
    loops.insert(axis + 1, Loop(str(count), "0"))
    wide = shape.text.op(f"mul i64 {extents[axis]}, {count}")
    return (*extents[:axis], wide, *extents[axis + 1 :]), View("0", tuple(loops))


def _tile(
    reps: tuple[int, ...], extents: Extents, strides: list[str], shape: ShapeWriter
) -> tuple[Extents, View]:
    rank = max(len(extents), len(reps))
    lengths = ("1",) * (rank - len(extents)) + extents
    steps = ["0"] * (rank - len(extents)) + strides
    counts = (1,) * (rank - len(reps)) + reps
    loops = []
    for count, length, step in zip(counts, lengths, steps, strict=True):
        loops += [Loop(str(count), "0"), Loop(length, step)]
    found = tuple(
        shape.text.op(f"mul i64 {length}, {count}")
        for length, count in zip(lengths, counts, strict=True)
    )
    return found, View("0", tuple(loops))


def _slice(
    attrs: StridedSliceAttrs, extents: Extents, strides: list[str], shape: ShapeWriter
) -> tuple[Extents, View]:
    text = shape.text
    loops = _loops(extents, strides)
    offset = "0"
    for axis, each in enumerate(slices(attrs, len(extents))):
        if each.start is None:
            continue
        begin, length = _taken(shape, extents[axis], each.start, each.stop, each.step)
        loops[axis] = Loop(length, text.op(f"mul i64 {strides[axis]}, {each.step}"))
        moved = text.op(f"mul i64 {begin}, {strides[axis]}")
        offset = text.op(f"add i64 {offset}, {moved}")
    return tuple(loop.length for loop in loops), View(offset, tuple(loops))


def _taken(shape: ShapeWriter, extent: str, start: int, stop: int, step: int) -> tuple[str, str]:
    """Return begin and length of a slice: its ends are moved into the axis, as Python does."""
    text = shape.text
    low, high = ("0", extent) if step > 0 else ("-1", text.op(f"sub i64 {extent}, 1"))
    begin = _held(shape, extent, start, low, high)
    end = _held(shape, extent, stop, low, high)
    first, last = (begin, end) if step > 0 else (end, begin)
    room = text.op(f"sub i64 {last}, {first}")
    rounded = text.op(f"add i64 {room}, {abs(step) - 1}")
    length = text.op(f"sdiv i64 {rounded}, {abs(step)}")
    some = text.op(f"icmp sgt i64 {room}, 0")
    return begin, text.op(f"select i1 {some}, i64 {length}, i64 0")


def _held(shape: ShapeWriter, extent: str, place: int, low: str, high: str) -> str:
    text = shape.text
    from_front = text.op(f"add i64 {extent}, {place}") if place < 0 else str(place)
    raised = text.call("i64", "llvm.smax.i64", ("i64", from_front), ("i64", low))
    return text.call("i64", "llvm.smin.i64", ("i64", raised), ("i64", high))


def _split(
    attrs: SplitAttrs, extents: Extents, strides: list[str], shape: ShapeWriter
) -> tuple[tuple[Extents, View], ...]:
    axis = attrs.axis % len(extents)
    where = attrs.indices_or_sections
    cuts = (
        _equal_pieces(extents[axis], where, shape)
        if isinstance(where, int)
        else _pieces_at(extents[axis], where, shape)
    )
    found = []
    for begin, length in cuts:
        own = (*extents[:axis], length, *extents[axis + 1 :])
        offset = shape.text.op(f"mul i64 {begin}, {strides[axis]}")
        found.append((own, View(offset, tuple(_loops(own, strides)))))
    return tuple(found)


def _equal_pieces(extent: str, sections: int, shape: ShapeWriter) -> list[tuple[str, str]]:
    text = shape.text
    rest = text.op(f"urem i64 {extent}, {sections}")
    shape.require(text.op(f"icmp eq i64 {rest}, 0"), "split makes equal pieces")
    length = text.op(f"udiv i64 {extent}, {sections}")
    return [(text.op(f"mul i64 {length}, {place}"), length) for place in range(sections)]


def _pieces_at(extent: str, places: Sequence[int], shape: ShapeWriter) -> list[tuple[str, str]]:
    text = shape.text
    ends = [*map(str, places), extent]
    cuts = []
    for begin, end in zip(("0", *map(str, places)), ends, strict=True):
        good = text.op(f"icmp sge i64 {end}, {begin}")
        shape.require(good, "split needs places in order")
        cuts.append((begin, text.op(f"sub i64 {end}, {begin}")))
    return cuts
