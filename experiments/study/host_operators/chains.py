"""Softmax and layer normalization of rows as chains of the accelerator's operators.

Softmax subtracts the logarithm of the row's sum of powers, which needs no division and has relative
steps; layer normalization multiplies by the reciprocal of the root. Both may be run in rounds: the
second starts from what the first has found, where rows are alike, and sums that afresh.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeAlias, final

import numpy as np

from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from experiments.study.host_operators.point import LAYER_NORM, SOFTMAX
from experiments.study.host_operators.steps import (
    LEVELS,
    Codes,
    less_copies,
    product,
    row_sums,
    spread,
    table,
)

EPSILON: Final = 1e-5
"""What layer normalization adds to the variance."""

INPUT: Final = "x"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a chain is free to choose: rounds, and where int8 is cut off.

    Rows beyond a `quantile` of all saturate: by their greatest values (softmax) or by their factors
    (layer normalization). `span` lies between the greatest logarithm of a softmax and the least.
    """

    rounds: int
    quantile: float
    span: float


Chain: TypeAlias = Callable[[Codes, Choice], Codes]


def input_codes(rows: Array) -> Codes:
    """Return rows, float64[count, length], as int8[1, length, 1, count] in as fine steps as fit."""
    scale = float(np.abs(rows).max()) / 127
    integers = np.rint(rows.T[None, :, None, :] / scale).astype(np.int8)
    var = Var(INPUT, TensorType(integers.shape, DType.INT8))
    return Codes(expr=var, integers=integers, scale=scale)


def module_of(data: Codes, result: Codes) -> Module:
    """Return the network of a chain that was built from `data`."""
    assert isinstance(data.expr, Var), "a chain starts from its input"
    return Module({"main": Function((data.expr,), result.expr)})


def softmax_chain(data: Codes, choice: Choice) -> Codes:
    """Return softmax along the channels."""
    values = data
    for _ in range(choice.rounds):
        values = _less_logarithm(values, choice)
    return table(values, np.exp, 0.0, float(np.exp(values.real.max())))


def _less_logarithm(values: Codes, choice: Choice) -> Codes:
    """Return the values less the logarithm of the sum of their powers."""
    top = float(np.quantile(values.real.max(axis=1), choice.quantile))
    sums = row_sums(table(values, lambda real: np.exp(real - top), 0.0, 1.0), zero_point=-128)

    def logarithm(real: Array) -> Array:
        return np.asarray(np.log(np.maximum(real, sums.scale / 2)) + top)

    seen = logarithm(sums.real)
    logarithms = table(sums, logarithm, float(seen.min()), float(seen.max()))
    greatest = min(float((values.real - _mean(logarithms)).max()), 0.0)
    scale = choice.span / LEVELS
    return less_copies(values, logarithms, scale, zero_point=127, top=greatest)


def layer_norm_chain(data: Codes, choice: Choice) -> Codes:
    """Return (x - mean) / sqrt(variance + epsilon) along the channels."""
    sums = row_sums(data, zero_point=0)
    means = replace(sums, scale=sums.scale / data.integers.shape[1])
    scale = float(np.abs(data.real - _mean(means)).max()) / 127
    values = less_copies(data, means, scale, zero_point=0, top=0.0)
    for _ in range(choice.rounds):
        values = _over_deviation(values, choice)
    return values


def _over_deviation(values: Codes, choice: Choice) -> Codes:
    """Return the values, whose mean is 0, over the root of their variance."""
    length = values.integers.shape[1]
    squares = table(values, np.square, 0.0, float(np.square(values.real).max()))
    sums = row_sums(squares, zero_point=-128)
    variances = replace(sums, scale=sums.scale / length)

    def factor(real: Array) -> Array:
        return np.asarray(1 / np.sqrt(np.maximum(real, variances.scale / 2) + EPSILON))

    greatest = float(np.quantile(factor(variances.real), choice.quantile))
    factors = table(variances, factor, 0.0, greatest)
    scale = float(np.abs(values.real * _mean(factors)).max()) / 127
    spread_out = spread(factors, length, factors.scale, zero_point=-128, offset=0.0)
    return product(values, spread_out, scale)


def _mean(copies: Codes) -> Array:
    return np.asarray(copies.real.mean(axis=1, keepdims=True))


CHAIN_OF: Final[Mapping[str, Chain]] = MappingProxyType(
    {SOFTMAX: softmax_chain, LAYER_NORM: layer_norm_chain}
)


def choices(operator: str, rounds: int) -> Iterator[Choice]:
    """Return what is tried for a chain: the best of it is what the study reports."""
    spans = (4.0, 6.0, 8.0, 10.0, 14.0) if operator == SOFTMAX else (0.0,)
    for quantile, span in itertools.product((1.0, 0.9, 0.5), spans):
        yield Choice(rounds=rounds, quantile=quantile, span=span)
