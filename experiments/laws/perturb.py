"""A program whose floating-point operators are off by a few units in the last place.

Every operand and every result of an operator that may round is multiplied, element by element, by
numbers next to 1. What the program then answers shows how far rounding alone may move an answer.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.ir.relay.expr import Call, Constant, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ir.relay.visit import rewrite_pairs
from codesign.ops.table import call

_EXACT: Final = frozenset(
    {
        *("cast", "negative", "abs", "maximum", "minimum", "clip", "nn.relu", "where"),
        *("reshape", "transpose", "concatenate", "split", "strided_slice", "broadcast_to"),
        *("take", "gather_nd", "gather_elements", "max", "min", "nn.max_pool2d", "nn.pad"),
        *("ceil", "floor", "round", "nn.global_max_pool2d", "expand_dims", "squeeze"),
    }
)
"""Operators that give one of their operands' numbers, or one that nothing rounds."""

_UNITS: Final = 4
"""How many units in the last place a number moves at most."""


def perturbed(module: Module, seed: int) -> Module:
    """Return the module with what its operators round moved at random."""
    types = infer_types(module)
    rng = np.random.default_rng(seed)

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        if not isinstance(rebuilt, Call) or not isinstance(rebuilt.callee, OpRef):
            return rebuilt
        if rebuilt.callee.name in _EXACT:
            return rebuilt
        assert isinstance(original, Call), "a call is rebuilt from a call"
        args = tuple(
            _moved(new, types[old], rng)
            for old, new in zip(original.args, rebuilt.args, strict=True)
        )
        return _moved(Call(rebuilt.callee, args, rebuilt.attrs), types[original], rng)

    functions = {name: rewrite_pairs(function, rule) for name, function in module.functions.items()}
    return module.with_functions(functions)  # type: ignore[arg-type]


def _moved(expr: Expr, type_: Type, rng: np.random.Generator) -> Expr:
    if not isinstance(type_, TensorType) or not type_.dtype.is_float:
        return expr
    shape = tuple(1 if dim is UNKNOWN else dim for dim in type_.shape)
    eps = float(np.finfo(type_.dtype.numpy).eps)
    factors = 1 + eps * rng.integers(-_UNITS, _UNITS + 1, shape)
    return call("multiply", expr, Constant(np.asarray(factors).astype(type_.dtype.numpy)))
