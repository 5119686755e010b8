"""How operators between layers take a layout along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Final, TypeAlias, final

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.rewriting.layouts.place import Place, reshaped
from codesign.ir.relay.expr import Attrs, Call, Expr, OpRef
from codesign.ops.axis import AxisAttrs
from codesign.ops.nn.bias_add import BiasAddAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.operator import Fusion
from codesign.ops.reduce import ReduceAttrs
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.table import OPERATORS
from codesign.ops.transpose import TransposeAttrs

Adapt: TypeAlias = Callable[[Expr], Expr]


def _as_it_is(value: Expr) -> Expr:
    return value


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """A call in another layout: where its operands and its result lie, and its attributes.

    `adapted` says what is done to each operand after that; `callee` takes the operator's place.
    """

    places: tuple[Place | None, ...]
    adapted: tuple[Adapt, ...]
    attrs: Attrs | None
    result: Place | None
    callee: OpRef | None = None


def _all_at(place: Place, count: int, attrs: Attrs | None, result: Place | None) -> Follower:
    return Follower(
        places=(place,) * count, adapted=(_as_it_is,) * count, attrs=attrs, result=result
    )


def follower(call: Call, operands: tuple[Expr, ...], place: Place, facts: Facts) -> Follower | None:
    """Return the call with what lies at a place, None where it reads it as the program has it."""
    assert isinstance(call.callee, OpRef), "operators follow"
    name, shape = call.callee.name, facts.shape(call)
    if name in _SPREADING:
        return None if shape is None else _spreading(call, operands, place, shape, facts)
    if name in _MEANS:
        return _global_pool(call, place, facts)
    match name, call.attrs:
        case "nn.bias_add", BiasAddAttrs(axis=axis):
            return _bias_add(call, axis, place, facts)
        case "concatenate", AxisAttrs(axis=axis):
            return _concatenate(operands, axis, place, facts)
        case "nn.softmax" | "nn.log_softmax", AxisAttrs(axis=axis) if place.is_permuted:
            attrs: Attrs = AxisAttrs(axis=place.axis(axis % len(place.source)))
            return _all_at(place, 1, attrs, place)
        case _, ReduceAttrs() as reduced if place.is_permuted:
            return _reduction(reduced, place)
        case "nn.pad", PadAttrs(pad_width=widths) as pad if place.is_permuted:
            order = [place.source.index(axis) for axis in place.target]
            attrs = replace(pad, pad_width=tuple(widths[axis] for axis in order))
            return _all_at(place, 1, attrs, place)
        case "strided_slice", StridedSliceAttrs() as cut if place.is_permuted:
            axes = cut.axes or tuple(range(len(cut.begin)))
            rank = len(place.source)
            attrs = replace(cut, axes=tuple(place.axis(axis % rank) for axis in axes))
            return _all_at(place, 1, attrs, place)
        case "transpose", TransposeAttrs(axes=axes) if place.is_permuted:
            rank = len(place.source)
            order = [axis % rank for axis in axes or reversed(range(rank))]
            attrs = TransposeAttrs(axes=tuple(place.axis(axis) for axis in order))
            return _all_at(place, 1, attrs, None)
        case _ if len(operands) == 1 and OPERATORS[name].fusion is Fusion.ELEMENTWISE:
            return _all_at(place, 1, call.attrs, place)
        case _:
            return None


_SPREADING: Final = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("logical_and", "logical_or", "where"),
    }
)

_MEANS: Final = {"nn.global_avg_pool2d": "mean", "nn.global_max_pool2d": "max"}


def _spreading(
    call: Call, operands: tuple[Expr, ...], place: Place, shape: tuple[int, ...], facts: Facts
) -> Follower | None:
    """Return a broadcast operator: an operand of one number stays, shorter ones get axes first."""
    if not place.holds(shape):
        return None
    places: list[Place | None] = []
    adapted: list[Adapt] = []
    for operand in operands:
        own = facts.shape(operand)
        if own is None:
            return None
        lengthened = (1,) * (len(shape) - len(own)) + own
        if prod(own) == 1:
            places.append(None)
            adapted.append(_as_a_scalar if own else _as_it_is)
        elif not place.holds(lengthened):
            return None
        elif len(own) == len(shape):
            places.append(place)
            adapted.append(_as_it_is)
        else:
            places.append(None)
            adapted.append(_lengthened(lengthened, place))
    return Follower(places=tuple(places), adapted=tuple(adapted), attrs=call.attrs, result=place)


def _as_a_scalar(value: Expr) -> Expr:
    return reshaped(value, ())


def _lengthened(shape: tuple[int, ...], place: Place) -> Adapt:
    return lambda value: place.move(reshaped(value, shape))


def _bias_add(call: Call, axis: int, place: Place, facts: Facts) -> Follower | None:
    """Return the sum with the bias as a tensor of one row of channels; the axis may be cut."""
    shape = facts.shape(call)
    if shape is None:
        return None
    axis %= len(shape)
    if place.is_permuted:
        return Follower(
            places=(place, None),
            adapted=(_as_it_is, _as_it_is),
            attrs=BiasAddAttrs(axis=place.axis(axis)),
            result=place,
        )
    row = tuple(dim if each == axis else 1 for each, dim in enumerate(shape))
    if not place.holds(row):
        return None
    return Follower(
        places=(place, None),
        adapted=(_as_it_is, _lengthened(row, place)),
        attrs=None,
        result=place,
        callee=OpRef("add", call.span),
    )


def _concatenate(
    operands: tuple[Expr, ...], axis: int, place: Place, facts: Facts
) -> Follower | None:
    shapes = [facts.shape(each) for each in operands]
    if any(shape is None or not place.holds(shape) for shape in shapes):
        return None
    attrs = AxisAttrs(axis=place.axis(axis % len(place.source)))
    return _all_at(place, len(operands), attrs, place)


def _reduction(attrs: ReduceAttrs, place: Place) -> Follower | None:
    rank = len(place.source)
    axes = {axis % rank for axis in attrs.axis} or set(range(rank))
    moved = replace(attrs, axis=tuple(sorted(place.axis(axis) for axis in axes)))
    if attrs.keepdims:
        return _all_at(place, 1, moved, place)
    left = [place.axis(axis) for axis in range(rank) if axis not in axes]
    return _all_at(place, 1, moved, None) if left == sorted(left) else None


def _global_pool(call: Call, place: Place, facts: Facts) -> Follower | None:
    """Return the mean or the greatest over height and width, which no layout hides."""
    assert isinstance(call.callee, OpRef), "operators follow"
    if not place.is_permuted or not facts.is_float(call):
        return None
    axes = (place.axis(2), place.axis(3))
    return Follower(
        places=(place,),
        adapted=(_as_it_is,),
        attrs=ReduceAttrs(axis=tuple(sorted(axes)), keepdims=True),
        result=place,
        callee=OpRef(_MEANS[call.callee.name], call.span),
    )
