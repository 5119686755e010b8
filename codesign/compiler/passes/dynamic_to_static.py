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
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.expr import Attrs, Call, Constant, Expr, OpRef, Tuple
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import post_order, rewrite_pairs
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.counting import ShapeOfAttrs
from codesign.ops.dynamic import DynFilledAttrs
from codesign.ops.filled import FilledAttrs, FullAttrs
from codesign.ops.reshape import ReshapeAttrs
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
        case _, Call(OpRef(name), (*args, Constant(shape)), attrs) if name.startswith("dyn."):
            return _static(rebuilt, name, tuple(args), shape, attrs)
        case _, Call(OpRef(name), args, attrs):
            return _evaluated(rebuilt, name, args, attrs)
        case _:
            return rebuilt


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
