"""Rules of operators that only move elements, and of those that take a shape from another tensor.

All are exact; they need shapes that are known where they compute with lengths.
"""

from __future__ import annotations

from typing import Final

from codesign.compiler.rewriting.dataflow_pattern import any_, op
from codesign.compiler.rewriting.simplify.arithmetic import the
from codesign.compiler.rewriting.simplify.rule import Found, Rule
from codesign.ir.relay.expr import Call, Expr, Tuple
from codesign.ops.broadcast_to import BroadcastToAttrs
from codesign.ops.cast import CastAttrs
from codesign.ops.collapse_sum import CollapseSumAttrs
from codesign.ops.filled import FilledAttrs, FullAttrs
from codesign.ops.layout import Layout
from codesign.ops.layout_transform import LayoutTransformAttrs
from codesign.ops.nn.pad import PadAttrs
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.transpose import TransposeAttrs

X, LIKE = any_("x"), any_("like")


def _drops_like(found: Found) -> bool:
    return found.facts.is_pure(found["like"])


def _filled(name: str) -> Rule:
    def make(found: Found) -> Expr | None:
        shape, dtype = found.facts.shape(found.root), found.facts.dtype(found.root)
        if shape is None or dtype is None or not _drops_like(found):
            return None
        return found.call(name, attrs=FilledAttrs(shape=shape, dtype=dtype))

    return Rule(f"{name}_like of a known shape", op(f"{name}_like", LIKE), make)


def _full_like(found: Found) -> Expr | None:
    shape = found.facts.shape(found.root)
    if shape is None or not _drops_like(found):
        return None
    return found.call("full", found["x"], attrs=FullAttrs(shape=shape))


def _collapse_sum_to(found: Found) -> Expr | None:
    shape = found.facts.shape(found["like"])
    if shape is None or not _drops_like(found):
        return None
    return found.call("collapse_sum_to", found["x"], attrs=CollapseSumAttrs(shape=shape))


def _broadcast_to(found: Found) -> Expr | None:
    shape = found.facts.shape(found["like"])
    if shape is None or not _drops_like(found):
        return None
    return found.call("broadcast_to", found["x"], attrs=BroadcastToAttrs(shape=shape))


def _cast(found: Found) -> Expr | None:
    dtype = found.facts.dtype(found["like"])
    if dtype is None or not _drops_like(found):
        return None
    return found.call("cast", found["x"], attrs=CastAttrs(dtype=dtype))


def _reshape(found: Found) -> Expr | None:
    """Return one reshape to the shape of the root."""
    shape = found.facts.shape(found.root)
    if shape is None or found.facts.shape(found["x"]) is None:
        return None
    return found.call("reshape", found["x"], attrs=ReshapeAttrs(shape=shape))


def _reshape_like(found: Found) -> Expr | None:
    return _reshape(found) if _drops_like(found) else None


def _axes(found: Found, call: Expr) -> tuple[int, ...] | None:
    type_ = found.facts.tensor(call)
    if type_ is None or not isinstance(call, Call) or not isinstance(call.attrs, TransposeAttrs):
        return None
    rank = len(type_.shape)
    return tuple(axis % rank for axis in call.attrs.axes or reversed(range(rank)))


def _transposes(found: Found) -> Expr | None:
    outer, inner = _axes(found, found.root), _axes(found, found["inner"])
    if outer is None or inner is None:
        return None
    axes = tuple(inner[axis] for axis in outer)
    return found.call("transpose", found["x"], attrs=TransposeAttrs(axes=axes))


def _transpose_of_ones(found: Found) -> Expr | None:
    """Return a reshape where the axes that move have length 1."""
    axes, shape = _axes(found, found.root), found.facts.shape(found["x"])
    if axes is None:
        return None
    if list(axes) == sorted(axes):
        return found["x"]
    if shape is None:
        return None
    long = [axis for axis in axes if shape[axis] != 1]
    return _reshape(found) if long == sorted(long) else None


def _layouts(found: Found) -> Expr | None:
    inner, outer = found["inner"], found.root.attrs
    assert isinstance(inner, Call), "the pattern finds a call"
    assert isinstance(inner.attrs, LayoutTransformAttrs), "checked by type inference"
    assert isinstance(outer, LayoutTransformAttrs), "checked by type inference"
    if inner.attrs.dst_layout != outer.src_layout:
        return None
    attrs = LayoutTransformAttrs(src_layout=inner.attrs.src_layout, dst_layout=outer.dst_layout)
    return found.call("layout_transform", found["x"], attrs=attrs)


def _plain_layout(found: Found) -> Expr | None:
    attrs = found.root.attrs
    assert isinstance(attrs, LayoutTransformAttrs), "checked by type inference"
    if attrs.src_layout == attrs.dst_layout:
        return found["x"]
    source, target = Layout.of(attrs.src_layout), Layout.of(attrs.dst_layout)
    if source.blocks or target.blocks:
        return None
    axes = tuple(source.axes.index(name) for name in target.axes)
    return found.call("transpose", found["x"], attrs=TransposeAttrs(axes=axes))


def _pads_nothing(found: Found) -> Expr | None:
    attrs = found.root.attrs
    is_empty = isinstance(attrs, PadAttrs) and not any(any(pair) for pair in attrs.pad_width)
    return found["x"] if is_empty else None


def _one_part(found: Found) -> Expr | None:
    match found["x"]:
        case Tuple((part,)):
            return part
        case _:
            return None


def _keeps_shape(found: Found) -> Expr | None:
    """Return the argument: where its type is the result's, nothing was moved."""
    return found["x"] if found.facts.shape(found["x"]) is not None else None


def _whole_slice(found: Found) -> Expr | None:
    strides = getattr(found.root.attrs, "strides", ())
    return found["x"] if all(stride == 1 for stride in strides) else None


_RESHAPES: Final = "reshape expand_dims squeeze"

RULES: Final = (
    _filled("zeros"),
    _filled("ones"),
    Rule("full_like of a known shape", op("full_like", LIKE, X), _full_like),
    Rule("reshape_like of a known shape", op("reshape_like", X, LIKE), _reshape_like),
    Rule("collapse_sum_like of a known shape", op("collapse_sum_like", X, LIKE), _collapse_sum_to),
    Rule("broadcast_to_like of a known shape", op("broadcast_to_like", X, LIKE), _broadcast_to),
    Rule("cast_like of a known type", op("cast_like", X, LIKE), _cast),
    Rule("what keeps its shape moves nothing", op("reshape expand_dims squeeze", X), _keeps_shape),
    Rule("one reshape for two", op("reshape", op(_RESHAPES, X)), _reshape),
    Rule("expand_dims and squeeze are reshapes", op("expand_dims squeeze", X), _reshape),
    Rule("a transpose in order is none", op("transpose", X), _transpose_of_ones),
    Rule("one transpose for two", op("transpose", op("transpose", X, name="inner")), _transposes),
    Rule("without blocks it is a transpose", op("layout_transform", X), _plain_layout),
    Rule("one layout for two", op("layout_transform", op("layout_transform", X, name="inner")),
         _layouts),
    Rule("a broadcast to the own shape is none", op("broadcast_to", X), the("x")),
    Rule("the last of two broadcasts", op("broadcast_to", op("broadcast_to", X)),
         lambda found: found.call("broadcast_to", found["x"], attrs=found.root.attrs)),
    Rule("a sum to the own shape is none", op("collapse_sum_to", X), the("x")),
    Rule("a slice of everything is none", op("strided_slice", X), _whole_slice),
    Rule("widths of 0 pad nothing", op("nn.pad", X), _pads_nothing),
    Rule("one part needs no joining", op("concatenate", X), _one_part),
)  # fmt: skip
"""Every rule of this file."""
