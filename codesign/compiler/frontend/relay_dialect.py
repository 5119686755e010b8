"""What TVM writes differently: attributes that its own operators have, and operators we have not.

    nn.conv2d(…, channels=8, kernel_size=[3, 3], out_layout="")         attributes that say nothing
    nn.dense(…, units=10)                                               new are dropped
    nn.max_pool2d(…, padding=[1, 1])                                    padding of 1 or 2 numbers
    reshape(…, newshape=[0, -1])                                        0 copies a length
    nn.batch_norm(…, scale=False).0                                     gives three results there
    nn.dropout(…).0                                                     gives two results there
    strided_set(%x, %v, begin, end, strides)                            constants are attributes

Attributes with another value than the one that we compute with are refused. Where a shape is needed
it is that of the annotated variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np

from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.frontend.token_stream import mistake
from codesign.diagnostics import CodesignError, Span
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef, Var
from codesign.ir.relay.types import TensorType

Args: TypeAlias = tuple[Expr, ...]
Values: TypeAlias = Mapping[str, object]

_NCHW: Final[Values] = {"data_layout": "NCHW", "layout": "NCHW", "out_layout": ""}
_LINE: Final[Values] = {"data_layout": "NCW", "layout": "NCW", "out_layout": ""}
_VOLUME: Final[Values] = {"data_layout": "NCDHW", "layout": "NCDHW", "out_layout": ""}
_SAME: Final[Values] = {"out_layout": ""}
_FIXED: Final[Mapping[str, Values]] = {
    "nn.conv2d": {**_SAME, "out_dtype": ""},
    "nn.conv2d_transpose": {**_NCHW, "kernel_layout": "IOHW", "out_dtype": ""},
    "nn.dense": {"out_dtype": ""},
    "nn.max_pool2d": _SAME,
    "nn.avg_pool2d": _SAME,
    "nn.global_max_pool2d": _NCHW,
    "nn.global_avg_pool2d": _NCHW,
    "nn.batch_norm": {"axis": 1},
    "reshape": {"allowzero": 0},
    "nn.conv1d": {**_LINE, "kernel_layout": "OIW", "out_dtype": ""},
    "nn.conv1d_transpose": {**_LINE, "kernel_layout": "OIW", "out_dtype": ""},
    "nn.conv3d": {**_VOLUME, "kernel_layout": "OIDHW", "out_dtype": ""},
    **dict.fromkeys(("nn.max_pool1d", "nn.avg_pool1d"), _LINE),
    **dict.fromkeys(("nn.max_pool3d", "nn.avg_pool3d"), _VOLUME),
    **dict.fromkeys(("nn.adaptive_avg_pool1d", "nn.adaptive_max_pool1d"), _LINE),
    **dict.fromkeys(("nn.adaptive_avg_pool2d", "nn.adaptive_max_pool2d"), _NCHW),
    **dict.fromkeys(("nn.adaptive_avg_pool3d", "nn.adaptive_max_pool3d"), _VOLUME),
    "nn.upsampling": {"layout": "NCHW"},
    **{name: {"dtype": ""} for name in ("cumsum", "cumprod")},
    **{name: {"exclude": False} for name in ("all", "any", "argmin", "variance")},
}
"""Attributes that are dropped where they have this value, or none."""

_REPEATED: Final[Mapping[str, Mapping[str, slice]]] = {
    "nn.conv2d": {"channels": slice(0, 1), "kernel_size": slice(2, 4)},
    "nn.conv2d_transpose": {"channels": slice(1, 2), "kernel_size": slice(2, 4)},
    "nn.dense": {"units": slice(0, 1)},
    "nn.conv1d": {"channels": slice(0, 1), "kernel_size": slice(2, 3)},
    "nn.conv1d_transpose": {"channels": slice(1, 2), "kernel_size": slice(2, 3)},
    "nn.conv3d": {"channels": slice(0, 1), "kernel_size": slice(2, 5)},
}
"""Attributes that repeat lengths of the second argument, and which."""

_SIDES: Final[Mapping[str, int]] = {
    f"nn.{layer}{axes}d{kind}": 2 * axes
    for axes in (1, 2, 3)
    for layer, kind in (("conv", ""), ("conv", "_transpose"), ("max_pool", ""), ("avg_pool", ""))
}
"""How many numbers padding has: one for each side."""

_DEFAULTS: Final[Mapping[str, Values]] = {
    "concatenate": {"axis": 0},
    "nn.leaky_relu": {"alpha": 0.25},
}
"""Attributes that mean something else in TVM where they are left out."""


def in_our_words(name: str, args: Args, values: Values, span: Span) -> tuple[Args, Values]:
    """Return arguments and attributes of an operator as we have them."""
    if not values and name not in _DEFAULTS and name != "strided_set":
        return args, values
    kept = {**_DEFAULTS.get(name, {}), **values}
    for key, only in _FIXED.get(name, {}).items():
        if kept.pop(key, None) not in (None, only):
            found = f"{key} is {values[key]!r}, expected {only!r}"
            raise mistake(f"{name} is computed in one way only", span, found)
    for key, which in _REPEATED.get(name, {}).items():
        if key in kept and kept.get("kernel_layout", "OIHW") == "OIHW":
            _check_repeated(name, key, kept.pop(key), args, which, span)
    for key in _REPEATED.get(name, {}):
        kept.pop(key, None)
    sides = _SIDES.get(name, 0)
    if isinstance(padding := kept.get("padding"), list) and len(padding) in (1, sides // 2):
        kept["padding"] = padding * (sides // len(padding))
    if name == "strided_set" and len(args) > 2:
        return _with_numbers(args, kept, span)
    if name == "nn.batch_norm":
        args = _scaled_and_centred(args, kept, span)
    if name == "reshape" and "newshape" in kept:
        kept["shape"] = _without_zeros(args, kept.pop("newshape"), span)
    return args, kept


def _check_repeated(
    name: str, key: str, value: object, args: Args, which: slice, span: Span
) -> None:
    match args:
        case (_, Var(annotation=TensorType(shape)), *_):
            wanted = list(shape[which])
        case (_, Constant(array), *_):
            wanted = list(array.shape[which])
        case _:
            return
    if value is None:
        return
    if (value if isinstance(value, list) else [value]) != wanted:
        found = f"{key} is {value}, the weight has {', '.join(map(str, wanted))}"
        raise mistake(f"{name} is given another weight", span, found)


def _known_type(expr: Expr) -> TensorType | None:
    """Return the type of an expression of annotated variables, None where it has no one tensor."""
    try:
        found = infer_expression(expr).get(expr)
    except CodesignError:
        return None
    return found if isinstance(found, TensorType) else None


def _needed_shape(name: str, expr: Expr, span: Span) -> tuple[tuple[int, ...], DType]:
    known = _known_type(expr)
    if known is None or any(not isinstance(dim, int) for dim in known.shape):
        advice = "annotate the variables with Tensor[(…), …] of known lengths"
        raise mistake(f"{name} is read where its argument's shape is known", span, "", advice)
    return known.static_shape, known.dtype


def _scaled_and_centred(args: Args, kept: dict[str, object], span: Span) -> Args:
    """Replace gamma by ones and beta by zeros where the attributes say that they are not used."""
    parts = list(args)
    for key, index, value in (("scale", 1, 1), ("center", 2, 0)):
        if not kept.pop(key, True) and index < len(parts):
            shape, dtype = _needed_shape("nn.batch_norm", parts[index], span)
            parts[index] = Constant(np.full(shape, value, dtype.numpy), span)
    return tuple(parts)


def field_of_result(value: Expr, index: int) -> Expr | None:
    """Return the field of what TVM's operator gives and ours does not, else None.

    nn.batch_norm gives result, mean and variance there; nn.dropout result and mask.
    """
    match value:
        case Call(OpRef("nn.batch_norm"), (_, _, _, mean, variance)) if index < 3:
            return (value, mean, variance)[index]
        case Call(OpRef("nn.dropout")) if index == 0:
            return value
        case _:
            return None


def _without_zeros(args: Args, shape: object, span: Span) -> object:
    if not isinstance(shape, list) or 0 not in shape:
        return shape
    old, _ = _needed_shape("reshape", args[0], span)
    if len(shape) > len(old) and 0 in shape[len(old) :]:
        raise mistake("reshape copies a length that there is not", span, f"the shape is {old}")
    return [old[axis] if dim == 0 else dim for axis, dim in enumerate(shape)]


def _with_numbers(args: Args, kept: dict[str, object], span: Span) -> tuple[Args, Values]:
    """Return the arguments of strided_set without those that say where, which are attributes."""
    for key, arg in zip(("begin", "end", "strides"), args[2:], strict=False):
        if not isinstance(arg, Constant):
            found = f"{key} is computed"
            raise mistake("strided_set is read where its places are constants", span, found)
        kept[key] = arg.value.reshape(-1).tolist()
    return args[:2] + args[5:], kept
