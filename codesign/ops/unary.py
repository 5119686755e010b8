"""Elementwise operators of one tensor without attributes.

    negative abs sign exp log log2 log10 sqrt rsqrt erf sigmoid copy
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
    ceil floor round trunc isnan isinf isfinite logical_not bitwise_not
    nn.relu nn.hard_swish nn.gelu nn.silu

Transcendental functions are computed in float64 and rounded once, so that a reference is within one
unit in the last place of the true value; a backend may be beside by more where the argument of sin,
cos or tan is greater than 2**30. A NaN stays a NaN; the sign of a zero from `nn.relu` or `sign` is
not promised.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt
from typing import Final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call
from codesign.ir.relay.types import TensorType, Type
from codesign.ops.numeric import ieee, in_double
from codesign.ops.operator import Fusion, NotOnAccelerator, Operator
from codesign.ops.relations import (
    ALL_DTYPES,
    FLOATS,
    HOST_FLOAT,
    INTEGERS,
    NUMBERS,
    elementwise,
    per_element,
    require_dtype,
    tensors,
)


def _unary(
    name: str,
    reference: Callable[[Array], Array],
    allowed: frozenset[DType] = FLOATS,
    operations: int = 1,
) -> Operator:
    return Operator(
        name=name,
        relation=elementwise(allowed),
        reference=reference,
        fusion=Fusion.ELEMENTWISE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(operations),
    )


def _asking(name: str, reference: Callable[[Array], Array]) -> Operator:
    def relation(call: Call, types: tuple[Type, ...]) -> Type:
        (data,) = tensors(call, types, 1)
        require_dtype(call, data, FLOATS)
        return TensorType(data.shape, DType.BOOL)

    return Operator(
        name=name,
        relation=relation,
        reference=reference,
        fusion=Fusion.ELEMENTWISE,
        accel=NotOnAccelerator(HOST_FLOAT),
        work=per_element(1),
    )


_erf_of_each = np.frompyfunc(erf, 1, 1)


def _erf(data: Array) -> Array:
    return np.asarray(_erf_of_each(data)).astype(np.float64)


def _sigmoid(data: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-data)))


def _gelu(data: Array) -> Array:
    return np.asarray(0.5 * data * (1.0 + _erf(data / sqrt(2.0))))


def _silu(data: Array) -> Array:
    return np.asarray(data / (1.0 + np.exp(-data)))


def _hard_swish(data: Array) -> Array:
    return np.asarray(data * np.clip(data / 6.0 + 0.5, 0.0, 1.0))


@ieee
def _relu(data: Array) -> Array:
    return np.asarray(np.maximum(data, data.dtype.type(0)))


@ieee
def _rsqrt(data: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(data))


OPERATORS: Final = (
    _unary("negative", np.negative, NUMBERS),
    _unary("abs", np.abs, NUMBERS),
    _unary("sign", ieee(np.sign), NUMBERS),
    _unary("exp", in_double(np.exp)),
    _unary("log", in_double(np.log)),
    _unary("log2", in_double(np.log2)),
    _unary("log10", in_double(np.log10)),
    _unary("sin", in_double(np.sin)),
    _unary("cos", in_double(np.cos)),
    _unary("tan", in_double(np.tan)),
    _unary("asin", in_double(np.arcsin)),
    _unary("acos", in_double(np.arccos)),
    _unary("atan", in_double(np.arctan)),
    _unary("sinh", in_double(np.sinh)),
    _unary("cosh", in_double(np.cosh)),
    _unary("asinh", in_double(np.arcsinh)),
    _unary("acosh", in_double(np.arccosh)),
    _unary("atanh", in_double(np.arctanh)),
    _unary("sqrt", ieee(np.sqrt)),
    _unary("rsqrt", in_double(_rsqrt), operations=2),
    _unary("erf", in_double(_erf)),
    _unary("tanh", in_double(np.tanh)),
    _unary("sigmoid", in_double(_sigmoid), operations=3),
    _unary("ceil", np.ceil),
    _unary("floor", np.floor),
    _unary("round", np.rint),
    _unary("trunc", np.trunc),
    _asking("isnan", np.isnan),
    _asking("isinf", np.isinf),
    _asking("isfinite", np.isfinite),
    _unary("logical_not", np.logical_not, frozenset({DType.BOOL})),
    _unary("bitwise_not", np.invert, INTEGERS | {DType.BOOL}),
    _unary("copy", np.array, ALL_DTYPES),
    _unary("nn.relu", _relu, NUMBERS),
    _unary("nn.hard_swish", in_double(_hard_swish), operations=5),
    _unary("nn.gelu", in_double(_gelu), operations=5),
    _unary("nn.silu", in_double(_silu), operations=4),
)
"""Every operator of this file."""
