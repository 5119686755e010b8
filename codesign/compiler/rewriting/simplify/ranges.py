"""Rules of casts and of bounds; all are exact.

A cast that loses nothing is dropped before another. Integers wrap in narrower integers where
floating point saturates, so that int32 to float64 to int8 is not int32 to int8.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.compiler.rewriting.dataflow_pattern import any_, op
from codesign.compiler.rewriting.simplify.arithmetic import the
from codesign.compiler.rewriting.simplify.rule import Found, Rule
from codesign.dtypes import DType
from codesign.ir.relay.expr import Attrs, Call, Expr
from codesign.ops.cast import CastAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.table import OPERATORS

X, INNER = any_("x"), "inner"


def is_lossless(source: DType, target: DType) -> bool:
    """Return whether a type holds every number of another.

    Examples
    --------
    >>> is_lossless(DType.INT16, DType.FLOAT32), is_lossless(DType.INT32, DType.FLOAT32)
    (True, False)
    >>> is_lossless(DType.UINT8, DType.INT16), is_lossless(DType.INT8, DType.UINT16)
    (True, False)
    """
    if source is target or source is DType.BOOL:
        return True
    if target is DType.BOOL or (source.is_float and not target.is_float):
        return False
    if source.is_float:
        return source.bits <= target.bits
    if target.is_float:
        precision = np.finfo(target.numpy).nmant + 1
        return max(abs(source.minimum), source.maximum + 1) <= 1 << int(precision)
    return target.minimum <= source.minimum and source.maximum <= target.maximum


def _casts(found: Found) -> Expr | None:
    source, between = found.facts.dtype(found["x"]), found.facts.dtype(found[INNER])
    target = found.facts.dtype(found.root)
    if source is None or between is None or target is None or not is_lossless(source, between):
        return None
    saturates = between.is_float and not source.is_float and target.is_integer
    if saturates and not is_lossless(source, target):
        return None
    return found.call("cast", found["x"], attrs=CastAttrs(dtype=target))


def _bounds(attrs: Attrs | None) -> tuple[float, float]:
    assert isinstance(attrs, ClipAttrs), "checked by type inference"
    return attrs.minimum, attrs.maximum


def _clip(found: Found, low: float, high: float) -> Expr:
    return found.call("clip", found["x"], attrs=ClipAttrs(minimum=low, maximum=high))


def _is_whole(found: Found, *bounds: float) -> bool:
    """Return whether bounds are elements' own, so that none is tightened to an integer."""
    is_float = found.facts.is_float(found["x"])
    return is_float or all(np.isinf(each) or each == np.floor(each) for each in bounds)


def _clips(found: Found) -> Expr | None:
    inner = found[INNER]
    assert isinstance(inner, Call), "the pattern finds a call"
    (a, b), (low, high) = _bounds(inner.attrs), _bounds(found.root.attrs)
    if not _is_whole(found, a, b, low, high):
        return None
    return _clip(found, min(max(a, low), high), max(min(b, high), low))


def _relu_of_clip(found: Found) -> Expr | None:
    inner = found[INNER]
    assert isinstance(inner, Call), "the pattern finds a call"
    low, high = _bounds(inner.attrs)
    return _clip(found, max(low, 0.0), max(high, 0.0)) if _is_whole(found, low, high) else None


def _clip_of_relu(found: Found) -> Expr | None:
    low, high = _bounds(found.root.attrs)
    if not _is_whole(found, low, high) or high < 0:
        return None
    return _clip(found, max(low, 0.0), high)


def _covering_clip(found: Found) -> Expr | None:
    """Return what a clip of integers takes where its bounds are no narrower than their type."""
    source = found["x"]
    low, high = _bounds(found.root.attrs)
    match source:
        case Call(args=(argument,), attrs=CastAttrs()):
            dtype, wide = found.facts.dtype(argument), found.facts.dtype(source)
            if dtype is None or wide is None or not is_lossless(dtype, wide):
                dtype = wide
        case _:
            dtype = found.facts.dtype(source)
    if dtype is None or not dtype.is_integer or low > dtype.minimum or high < dtype.maximum:
        return None
    return source


def _clip_then_casts(found: Found) -> Expr | None:
    """Return a clip of integers without the narrow type in which its bounds lie anyway."""
    held, narrow = found["held"], found.facts.dtype(found[INNER])
    dtype, target = found.facts.dtype(held), found.facts.dtype(found.root)
    assert isinstance(held, Call), "the pattern finds a call"
    low, high = _bounds(held.attrs)
    if dtype is None or narrow is None or target is None:
        return None
    if not (dtype.is_integer and narrow.is_integer):
        return None
    if low < narrow.minimum or high > narrow.maximum or not _is_whole(found, low, high):
        return None
    return found.call("cast", held, attrs=CastAttrs(dtype=target))


def _order_of_codes(found: Found) -> Expr | None:
    """Return the search among integers where dequantized ones have the same order."""
    inner, dtype = found[INNER], found.facts.dtype(found["x"])
    assert isinstance(inner, Call), "the pattern finds a call"
    assert isinstance(inner.attrs, QuantizeAttrs), "checked by type inference"
    if dtype is None:
        return None
    codes = np.arange(dtype.minimum, dtype.maximum + 1).astype(dtype.numpy)
    values = np.asarray(OPERATORS["qnn.dequantize"].reference(codes, inner.attrs))
    if not np.all(values[1:] > values[:-1]):
        return None
    name = found.root.callee
    return Call(name, (found["x"],), found.root.attrs, found.root.span)


_CLIP: Final = op("clip", X, name=INNER)
_RELU: Final = op("nn.relu", X, name=INNER)

RULES: Final = (
    Rule("a cast to the own type is none", op("cast", X), the("x")),
    Rule("a clip, then casts between", op("cast", op("cast", op("clip", X, name="held"),
         name=INNER)), _clip_then_casts),
    Rule("one cast for two", op("cast", op("cast", X, name=INNER)), _casts),
    Rule("bounds beyond the type", op("clip", X), _covering_clip),
    Rule("one clip for two", op("clip", _CLIP), _clips),
    Rule("relu of a clip", op("nn.relu", _CLIP), _relu_of_clip),
    Rule("clip of a relu", op("clip", _RELU), _clip_of_relu),
    Rule("relu twice", op("nn.relu", _RELU), the(INNER)),
    Rule("the order of codes", op("argmax", op("qnn.dequantize", X, name=INNER)), _order_of_codes),
)  # fmt: skip
"""Every rule of this file."""
