"""Rules of operators that need the lengths of their data where these are known at run time only.

The last operand is a vector of int64: the length of each axis of the first operand. What a rule
for known shapes writes into an index as a number is computed from it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codesign.compiler.lower.graph import Step
from codesign.compiler.lower.reductions import windows_sum
from codesign.compiler.lower.rule import Read, Rule, attrs_of
from codesign.dtypes import DType
from codesign.ir.tensor.compute import Expr, Fn, Literal, Position, apply, convert
from codesign.ir.tensor.index import Index, element
from codesign.ir.tensor.uses import axes_of
from codesign.ops.axis import AxisAttrs
from codesign.ops.image.resize2d import ResizeAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs


def _whole(value: int) -> Literal:
    return Literal(value, DType.INT64)


def _number(value: float) -> Literal:
    return Literal(value, DType.FLOAT64)


def _length(step: Step, read: Read, axis: int) -> Expr:
    return read(len(step.inputs) - 1, (Index((), axis),))


def _last(length: Expr) -> Expr:
    return apply(Fn.SUBTRACT, length, _whole(1))


def _held(place: Expr, last: Expr) -> Expr:
    return apply(Fn.MAXIMUM, apply(Fn.MINIMUM, place, last), Literal(0, place.dtype))


def _from_end(index: Expr, length: Expr, over: tuple[Index, ...]) -> Index:
    """Return a place that a tensor gives: negative ones count from the end, all are held inside."""
    wide = convert(index, DType.INT64)
    negative = apply(Fn.LESS, wide, _whole(0), dtype=DType.BOOL)
    moved = apply(Fn.SELECT, negative, apply(Fn.ADD, wide, length), wide, dtype=DType.INT64)
    return element(_held(moved, _last(length)), axes_of(over))


def _gather_elements(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    axis = attrs_of(step, AxisAttrs).axis % len(index)
    place = _from_end(read(1, index), _length(step, read, axis), index)
    return read(0, (*index[:axis], place, *index[axis + 1 :]))


def _gather_nd(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    indices = step.inputs[1]
    over = index[: len(indices.shape) - 1]
    places = tuple(
        _from_end(read(1, (*over, Index((), axis))), _length(step, read, axis), over)
        for axis in range(indices.shape[-1])
    )
    return read(0, (*places, *index[len(over) :]))


def _pad(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    """Take the nearest element, or the one as far inside as the place is outside."""
    attrs = attrs_of(step, PadAttrs)
    source = []
    for axis, (each, (before, after)) in enumerate(zip(index, attrs.pad_width, strict=True)):
        if not before and not after:
            source.append(each)
            continue
        last = _last(_length(step, read, axis))
        place: Expr = Position(each - before)
        if attrs.mode == "reflect":
            beyond = apply(Fn.ABS, apply(Fn.SUBTRACT, last, apply(Fn.ABS, place)))
            place = apply(Fn.SUBTRACT, last, beyond)
        source.append(element(_held(place, last), axes_of((each,))))
    return read(0, tuple(source))


def _avg_pool(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs, dtype = attrs_of(step, Pool2DAttrs), step.result.dtype
    total = windows_sum(step, index, read, attrs)
    rows, columns = (
        _counted(attrs, axis, index[axis + 2], _length(step, read, axis + 2)) for axis in (0, 1)
    )
    count = apply(Fn.MAXIMUM, apply(Fn.MULTIPLY, rows, columns), _whole(1))
    average = apply(Fn.DIVIDE, total, convert(count, total.dtype))
    if dtype.is_float:
        return average
    return convert(apply(Fn.ROUND_EVEN, average), dtype)


def _counted(attrs: Pool2DAttrs, axis: int, place: Index, length: Expr) -> Expr:
    """Return how many of a window's elements along an axis count.

    Element j lies at begin + j * dilation; those from `least` up to `end` count.
    """
    before, after = attrs.padding[axis], attrs.padding[axis + 2]
    far, size = attrs.dilation[axis], attrs.pool_size[axis]
    least, end = (
        (-before, apply(Fn.ADD, length, _whole(after))) if attrs.count_include_pad else (0, length)
    )
    begin = Position(place * attrs.strides[axis] - before)
    short = apply(Fn.SUBTRACT, _whole(least), begin)
    first = apply(Fn.DIVIDE, _above(apply(Fn.ADD, short, _whole(far - 1))), _whole(far))
    room = _above(apply(Fn.ADD, apply(Fn.SUBTRACT, end, begin), _whole(far - 1)))
    behind = apply(Fn.MINIMUM, apply(Fn.DIVIDE, room, _whole(far)), _whole(size))
    return _above(apply(Fn.SUBTRACT, behind, first))


def _above(value: Expr) -> Expr:
    return apply(Fn.MAXIMUM, value, _whole(0))


def _resize(step: Step, index: tuple[Index, ...], read: Read) -> Expr:
    attrs = attrs_of(step, ResizeAttrs)
    n, c, y, x = index
    places, lasts = [], []
    for axis, each in enumerate((y, x)):
        length = _length(step, read, axis + 2)
        lasts.append(_last(length))
        places.append(_source_place(attrs, axis, each, convert(length, DType.FLOAT64)))
    if attrs.method == "nearest_neighbor":
        rows, columns = (
            element(_held(_nearest(attrs, place), last), axes_of((each,)))
            for place, last, each in zip(places, lasts, (y, x), strict=True)
        )
        return read(0, (n, c, rows, columns))
    (up, down, row_share), (left, right, column_share) = (
        _around(place, last, each) for place, last, each in zip(places, lasts, (y, x), strict=True)
    )
    upper, lower = (
        _between(read(0, (n, c, row, left)), read(0, (n, c, row, right)), column_share)
        for row in (up, down)
    )
    return convert(_between(upper, lower, row_share), step.result.dtype)


def _source_place(attrs: ResizeAttrs, axis: int, place: Index, length: Expr) -> Expr:
    """Return where a result comes from along an axis, as `resize2d.source_places` says."""
    at, new = convert(Position(place), DType.FLOAT64), attrs.size[axis]
    match attrs.coordinate_transformation_mode:
        case "half_pixel":
            middle = apply(Fn.MULTIPLY, apply(Fn.ADD, at, _number(0.5)), length)
            return apply(Fn.SUBTRACT, apply(Fn.DIVIDE, middle, _number(new)), _number(0.5))
        case "asymmetric":
            return apply(Fn.DIVIDE, apply(Fn.MULTIPLY, at, length), _number(new))
        case "align_corners":
            last = apply(Fn.SUBTRACT, length, _number(1))
            return apply(Fn.DIVIDE, apply(Fn.MULTIPLY, at, last), _number(max(new - 1, 1)))


def _nearest(attrs: ResizeAttrs, place: Expr) -> Expr:
    match attrs.rounding_method:
        case "round_prefer_floor":
            found = apply(Fn.CEIL, apply(Fn.SUBTRACT, place, _number(0.5)))
        case "round_prefer_ceil":
            found = apply(Fn.FLOOR, apply(Fn.ADD, place, _number(0.5)))
        case "floor":
            found = apply(Fn.FLOOR, place)
        case "ceil":
            found = apply(Fn.CEIL, place)
    return convert(found, DType.INT64)


def _around(place: Expr, last: Expr, each: Index) -> tuple[Index, Index, Expr]:
    """Return the neighbours of a place on both sides, and the share of the second one."""
    held = _held(place, convert(last, DType.FLOAT64))
    floor = apply(Fn.FLOOR, held)
    low = convert(floor, DType.INT64)
    high = apply(Fn.MINIMUM, apply(Fn.ADD, low, _whole(1)), last)
    axes = axes_of((each,))
    return element(low, axes), element(high, axes), apply(Fn.SUBTRACT, held, floor)


def _between(first: Expr, second: Expr, share: Expr) -> Expr:
    low, high = convert(first, DType.FLOAT64), convert(second, DType.FLOAT64)
    return apply(Fn.FMA, apply(Fn.SUBTRACT, high, low), share, low)


RULES: Final[Mapping[str, Rule]] = {
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "nn.pad": _pad,
    "nn.avg_pool2d": _avg_pool,
    "image.resize2d": _resize,
}
"""The rules by operator; `nn.pad` in modes other than constant."""
