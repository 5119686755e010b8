"""Floating-point rules that the NumPy references share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from codesign.dtypes import Array

P = ParamSpec("P")
R = TypeVar("R")


def ieee(function: Callable[P, R]) -> Callable[P, R]:
    """Make NumPy silent: overflow gives an infinity and 0/0 a NaN, as IEEE 754 says."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return wrapped


def in_double(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Compute a function in float64 and round the result once to the argument's type."""

    @wraps(function)
    def wrapped(data: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(data.astype(np.float64))).astype(data.dtype)

    return wrapped
