"""Slices of tensors whose extents are known at run time only: where they begin, their copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from codesign.compiler.backends.llvm.arithmetic import memory_type
from codesign.compiler.backends.llvm.text import FunctionText
from codesign.compiler.backends.native.extents import Extents, ShapeWriter
from codesign.dtypes import DType
from codesign.ir.control.program import Operator
from codesign.ops.split import SplitAttrs
from codesign.ops.strided_slice import StridedSliceAttrs, slices


@final
@dataclass(frozen=True, slots=True)
class Range:
    """`length` elements of an axis from `begin` on, every `step`-th; registers or numbers."""

    begin: str
    length: str
    step: int = 1


def slice_ranges(operator: Operator, extents: Extents, shape: ShapeWriter) -> tuple[Range, ...]:
    """Return what a strided_slice takes of each axis, as Python's slices do."""
    assert isinstance(operator.attrs, StridedSliceAttrs), "the attributes of strided_slice"
    taken = []
    for extent, each in zip(extents, slices(operator.attrs, len(extents)), strict=True):
        if each.start is None:
            taken.append(Range("0", extent))
        else:
            taken.append(_taken(shape.text, extent, each.start, each.stop, each.step))
    return tuple(taken)


def _taken(text: FunctionText, extent: str, start: int, stop: int, step: int) -> Range:
    """Return a slice of one axis: its ends are moved into the axis before it is measured."""
    low, high = ("0", extent) if step > 0 else ("-1", text.op(f"sub i64 {extent}, 1"))
    begin = _held(text, extent, start, low, high)
    end = _held(text, extent, stop, low, high)
    first, last = (begin, end) if step > 0 else (end, begin)
    room = text.op(f"sub i64 {last}, {first}")
    rounded = text.op(f"add i64 {room}, {abs(step) - 1}")
    length = text.op(f"sdiv i64 {rounded}, {abs(step)}")
    some = text.op(f"icmp sgt i64 {room}, 0")
    return Range(begin, text.op(f"select i1 {some}, i64 {length}, i64 0"), step)


def _held(text: FunctionText, extent: str, place: int, low: str, high: str) -> str:
    from_front = text.op(f"add i64 {extent}, {place}") if place < 0 else str(place)
    raised = text.call("i64", "llvm.smax.i64", ("i64", from_front), ("i64", low))
    return text.call("i64", "llvm.smin.i64", ("i64", raised), ("i64", high))


def split_ranges(
    operator: Operator, extents: Extents, shape: ShapeWriter
) -> tuple[tuple[Range, ...], ...]:
    """Return what each piece of a split takes of each axis."""
    assert isinstance(operator.attrs, SplitAttrs), "the attributes of split"
    axis = operator.attrs.axis % len(extents)
    where = operator.attrs.indices_or_sections
    whole = tuple(Range("0", extent) for extent in extents)
    cuts = (
        _equal_pieces(extents[axis], where, shape)
        if isinstance(where, int)
        else _pieces_at(extents[axis], where, shape)
    )
    return tuple((*whole[:axis], cut, *whole[axis + 1 :]) for cut in cuts)


def _equal_pieces(extent: str, sections: int, shape: ShapeWriter) -> list[Range]:
    text = shape.text
    rest = text.op(f"urem i64 {extent}, {sections}")
    shape.require(text.op(f"icmp eq i64 {rest}, 0"), "split makes equal pieces")
    length = text.op(f"udiv i64 {extent}, {sections}")
    return [Range(text.op(f"mul i64 {length}, {place}"), length) for place in range(sections)]


def _pieces_at(extent: str, places: Sequence[int], shape: ShapeWriter) -> list[Range]:
    text = shape.text
    ends = [*map(str, places), extent]
    cuts = []
    for begin, end in zip(("0", *map(str, places)), ends, strict=True):
        good = text.op(f"icmp sge i64 {end}, {begin}")
        shape.require(good, "split needs places in order")
        cuts.append(Range(begin, text.op(f"sub i64 {end}, {begin}")))
    return cuts


def copy_ranges(
    text: FunctionText,
    target: str,
    source: str,
    extents: Extents,
    cut: tuple[Range, ...],
    dtype: DType,
) -> None:
    """Copy what ranges take of a dense tensor to dense memory, element by element."""
    kind = memory_type(dtype)
    strides = ["1"]
    for extent in reversed(extents[1:]):
        strides.insert(0, text.op(f"mul i64 {strides[0]}, {extent}"))

    def over(axis: int, offset: str, place: str) -> str:
        """Copy from an offset to a place; return the place behind."""
        if axis == len(cut):
            value = text.op(f"load {kind}, ptr {_at(text, kind, source, offset)}")
            text.do(f"store {kind} {value}, ptr {_at(text, kind, target, place)}")
            return text.op(f"add i64 {place}, 1")
        each = cut[axis]
        number = -2 - axis
        text.extents[number] = each.length
        with text.loop(number, (("i64", place),)) as (index, state):
            moved = text.op(f"mul i64 {index}, {each.step}")
            moved = text.op(f"add i64 {moved}, {each.begin}")
            moved = text.op(f"mul i64 {moved}, {strides[axis]}")
            inner = text.op(f"add i64 {offset}, {moved}")
            state.next[0] = over(axis + 1, inner, state.current[0])
        return state.current[0]

    over(0, "0", "0")


def _at(text: FunctionText, kind: str, base: str, place: str) -> str:
    return text.op(f"getelementptr {kind}, ptr {base}, i64 {place}")
