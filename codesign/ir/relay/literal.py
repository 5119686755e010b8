"""Constants in Relay text: scalars as literals, everything else as raw bytes in a metadata table.

5  5i64  -128i8  1.5f  -0.0f  1e-45f  2.5f64  inff  nan  True
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from math import isfinite, prod
from typing import Any, Final

import numpy as np

from codesign.dtypes import Array, DType

_SUFFIX: Final = {
    DType.INT8: "i8",
    DType.INT16: "i16",
    DType.INT32: "",
    DType.INT64: "i64",
    DType.FLOAT16: "f16",
    DType.FLOAT32: "f",
    DType.FLOAT64: "f64",
}

SUFFIXES: Final = {
    **{suffix: dtype for dtype, suffix in _SUFFIX.items() if suffix},
    "i32": DType.INT32,
    "f32": DType.FLOAT32,
}
"""The element type that each suffix of a number means."""

CONSTANTS: Final = "relay.Constant"
"""The key of constants in the metadata table."""


def literal(value: Array) -> str | None:
    """Return the text that reads as exactly this constant, or None where there is none."""
    dtype = DType.of(value.dtype)
    if value.shape != ():
        return None
    if dtype is DType.BOOL:
        return str(bool(value))
    if dtype not in _SUFFIX:
        return None
    return _float_literal(value, dtype) if dtype.is_float else f"{int(value)}{_SUFFIX[dtype]}"


def _float_literal(value: Array, dtype: DType) -> str | None:
    number = float(value)
    if not isfinite(number):
        special = {"inff": np.inf, "-inff": -np.inf, "nan": np.nan}
        return next((text for text, each in special.items() if _is_same(value, each)), None)
    short = str(value[()])
    digits = short if _is_same(value, float(short)) else repr(number)
    return f"{digits}{_SUFFIX[dtype]}"


def _is_same(value: Array, number: float) -> bool:
    """Return whether a float32 literal of the number has the value's bits; also of other types."""
    kind = np.float32 if not np.isfinite(number) else value.dtype
    other = np.asarray(number).astype(kind)
    return other.dtype == value.dtype and other.tobytes() == value.tobytes()


def to_metadata(value: Array) -> dict[str, Any]:
    """Return the constant's element type, shape and little-endian bytes in base 64."""
    little = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"))
    return {
        "dtype": str(DType.of(value.dtype)),
        "shape": list(value.shape),
        "data": b64encode(little.tobytes()).decode("ascii"),
    }


def from_metadata(entry: object) -> Array:
    """Return the constant of an entry of the metadata table.

    Raises
    ------
    ValueError
        The entry is not what `to_metadata` makes.
    """
    match entry:
        case {"dtype": str(name), "shape": [*shape], "data": str(data)}:
            pass
        case _:
            raise ValueError("an entry has the fields dtype, shape and data")
    if not all(isinstance(dim, int) and dim >= 0 for dim in shape):
        raise ValueError(f"a shape is a list of lengths, not {shape}")
    dtype, raw = DType(name), b64decode(data, validate=True)
    expected = prod(shape) * dtype.size_bytes
    if len(raw) != expected:
        raise ValueError(f"{name}{shape} takes {expected} bytes, found {len(raw)}")
    little = np.frombuffer(raw, dtype.numpy.newbyteorder("<"))
    return little.astype(dtype.numpy).reshape(shape)
