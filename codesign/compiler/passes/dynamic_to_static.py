"""dynamic-to-static: give operators the shapes that constants say.

    dyn.reshape(%x, meta of [3, 2])
becomes
    reshape(%x, shape=[3, 2])

A shape that becomes constant on the way (`shape_of` of a tensor of known lengths, arithmetic of
constants) counts. What follows may then have known lengths too, and so on until nothing changes.

Law: every bit stays; types may know more lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Final, final

import numpy as np

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef, Tuple
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import post_order, rewrite_pairs
from codesign.ops.axis import AxisAttrs
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.composed.ordering import TopKAttrs
from codesign.ops.composed.told import DynTopKAttrs
from codesign.ops.counting import ArangeAttrs, ShapeOfAttrs
from codesign.ops.dynamic import DynFilledAttrs
from codesign.ops.filled import FilledAttrs, FullAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.one_hot import OneHotAttrs
from codesign.ops.repeating import TileAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.strided_slice import StridedSliceAttrs
from codesign.ops.table import OPERATORS

_MOST_ROUNDS: Final = 1000
_MOST_ELEMENTS: Final = 64
"""Shapes are short: longer constants are not computed here."""


@final
@dataclass(frozen=True, slots=True)
class DynamicToStatic:
    """Replace dyn.… operators with constant shapes by those of known shapes."""

    name: ClassVar[str] = "dynamic-to-static"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such operators replaced."""
        if not any(_is_dynamic(node) for node in post_order(*module.functions.values())):
            return module
        for _ in range(_MOST_ROUNDS):
            types = infer_types(module)
            made = map_bodies(module, lambda body: _round(body, types))  # noqa: B023
            if made is module:
                return module
            module = made
        return module


def _is_dynamic(node: Expr) -> bool:
    return isinstance(node, OpRef) and (node.name.startswith("dyn.") or node.name == "shape_of")


def _round(body: Expr, types: Mapping[Expr, Type]) -> Expr:
    facts = Facts(types)
    return rewrite_pairs(body, lambda old, new: _rule(old, new, facts))


def _rule(original: Expr, rebuilt: Expr, facts: Facts) -> Expr:
    match original, rebuilt:
        case Call(_, (data,)), Call(OpRef("shape_of"), _, ShapeOfAttrs(dtype=dtype), span):
            shape = facts.shape(data)
            if shape is None or not facts.is_pure(data):
                return rebuilt
            return Constant(np.array(shape, dtype.numpy), span)
        case _, Call(OpRef(name), (*args, Constant(shape)), attrs) if name in _SHAPED:
            return _static(rebuilt, name, tuple(args), shape, attrs)
        case _, Call(OpRef(name)) if name.startswith("dyn."):
            return _told(rebuilt, name)
        case _, Call(OpRef(name), args, attrs):
            return _evaluated(rebuilt, name, args, attrs)
        case _:
            return rebuilt


_SHAPED: Final = ("dyn.reshape", "dyn.broadcast_to", "dyn.full", "dyn.zeros", "dyn.ones")


def _told(call: Call, name: str) -> Call:
    """Return the call with what constants tell as attributes; itself where it is wrong or open."""
    found = _told_attrs(name, call.args, call.attrs)
    if found is None:
        return call
    args, attrs = found
    return Call(OpRef(name.removeprefix("dyn."), call.span), args, attrs, call.span)


def _told_attrs(
    name: str, args: tuple[Expr, ...], attrs: Attrs | None
) -> tuple[tuple[Expr, ...], Attrs] | None:
    match name, args, attrs:
        case "dyn.arange", (Constant(stop),), _ if stop >= 0:
            return (), ArangeAttrs(stop=float(stop), dtype=DType.INT64)
        case "dyn.tile", (data, Constant(reps)), _ if np.all(reps >= 0):
            return (data,), TileAttrs(reps=_numbers(reps))
        case "dyn.one_hot", (*rest, Constant(depth)), AxisAttrs(axis=axis) if depth >= 0:
            return tuple(rest), OneHotAttrs(depth=int(depth), axis=axis)
        case "dyn.topk", (data, Constant(k)), DynTopKAttrs() as top if k >= 1:
            given = {field.name: getattr(top, field.name) for field in fields(top)}
            return (data,), TopKAttrs(k=int(k), **given)
        case "dyn.strided_slice", (data, Constant(first), Constant(end), Constant(step)), _ if (
            np.all(step != 0)
        ):
            begin, behind, strides = map(_numbers, (first, end, step))
            axes = tuple(range(len(begin)))
            return (data,), StridedSliceAttrs(begin=begin, end=behind, strides=strides, axes=axes)
        case "dyn.nn.pad", (data, Constant(widths), Constant(value)), _ if np.all(widths >= 0):
            pairs = tuple((int(before), int(after)) for before, after in widths)
            return (data,), PadAttrs(pad_width=pairs, value=float(value))
        case _:
            return None


def _numbers(value: Array) -> tuple[int, ...]:
    return tuple(int(each) for each in value)


def _static(
    call: Call, name: str, args: tuple[Expr, ...], shape: Array, attrs: Attrs | None
) -> Expr:
    lengths = tuple(int(dim) for dim in shape)
    if min(lengths, default=0) < (-1 if name == "dyn.reshape" else 0) or lengths.count(-1) > 1:
        return call  # the mistake is told when it runs
    static: Attrs
    match name, attrs:
        case "dyn.reshape", _:
            static = ReshapeAttrs(shape=lengths)
        case "dyn.broadcast_to", _:
            static = BroadcastToAttrs(shape=lengths)
        case "dyn.full", _:
            static = FullAttrs(shape=lengths)
        case "dyn.zeros" | "dyn.ones", DynFilledAttrs(dtype=dtype):
            static = FilledAttrs(shape=lengths, dtype=dtype)
        case _:
            return call
    return Call(OpRef(name.removeprefix("dyn."), call.span), args, static, call.span)


def _short(arg: Expr) -> Array | tuple[Array, ...] | None:
    """Return the value of a short constant of integers, or of a tuple of them."""
    match arg:
        case Constant(value) if value.dtype.kind in "iu" and value.size <= _MOST_ELEMENTS:
            return value
        case Tuple(fields):
            found = [_short(each) for each in fields]
            arrays = tuple(each for each in found if isinstance(each, np.ndarray))
            return arrays if len(arrays) == len(found) else None
        case _:
            return None


def _evaluated(call: Call, name: str, args: tuple[Expr, ...], attrs: Attrs | None) -> Expr:
    """Return the value of a call of short constants of integers: it may become a shape."""
    found = [_short(arg) for arg in args]
    values = [each for each in found if each is not None]
    if not values or len(values) < len(found):
        return call
    reference = OPERATORS[name].reference
    try:
        value = reference(*values) if attrs is None else reference(*values, attrs=attrs)
    except CodesignError:
        return call  # it may stand where it is never evaluated
    if isinstance(value, tuple) or np.size(value) > _MOST_ELEMENTS:
        return call
    return Constant(np.asarray(value), call.span)
