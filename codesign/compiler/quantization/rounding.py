"""Weights to integers such that the layer's result, not each weight, is as near as possible.

The error of a row of weights is e' C e, with C the covariance of what the row is multiplied by.
Columns are rounded one after another; what a rounding does to the result is made up for by the
columns that are not rounded yet.

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers" (ICLR 2023), algorithm 1, with columns in order of falling variance.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.dtypes import Array

_BLOCK: Final = 64
_DAMPING: Final = 0.01


def nearest(values: Array, limit: int) -> Array:
    """Return values to the nearest integer, half to even, within [-limit, limit]."""
    return np.asarray(np.clip(np.rint(values), -limit, limit))


def compensated(values: Array, covariance: Array, limit: int) -> Array:
    """Return integers for the rows of `values` [groups, rows, taps], in units of one.

    `covariance` is [groups, taps, taps]. A row for which plain rounding is better gets that.
    """
    plain = nearest(values, limit)
    variance = np.einsum("gkk->gk", covariance)
    order = np.argsort(-variance, axis=1, kind="stable")
    damping = _DAMPING * variance.mean(axis=1) + np.finfo(np.float64).tiny ** 0.5
    damped = covariance + damping[:, None, None] * np.eye(covariance.shape[1])
    damped = np.take_along_axis(damped, order[:, :, None], axis=1)
    damped = np.take_along_axis(damped, order[:, None, :], axis=2)
    scaled = damped / np.einsum("gkk->gk", damped).max(axis=1)[:, None, None]
    try:
        upper = np.linalg.cholesky(np.linalg.inv(scaled)).transpose(0, 2, 1)
    except np.linalg.LinAlgError:  # no covariance: rounding errors of its sums made it indefinite
        return plain
    rest = np.take_along_axis(values, order[:, None, :], axis=2)
    codes = np.take_along_axis(
        _one_by_one(rest, upper, limit), np.argsort(order, axis=1)[:, None, :], axis=2
    )
    is_better = _error(codes - values, covariance) < _error(plain - values, covariance)
    return np.where(is_better[:, :, None], codes, plain)


def _one_by_one(rest: Array, upper: Array, limit: int) -> Array:
    """Round columns in order; later ones make up for earlier ones, in blocks for speed."""
    taps = rest.shape[2]
    rest, codes = rest.copy(), np.empty_like(rest)
    for start in range(0, taps, _BLOCK):
        stop = min(start + _BLOCK, taps)
        errors = np.empty((*rest.shape[:2], stop - start))
        for column in range(start, stop):
            codes[:, :, column] = nearest(rest[:, :, column], limit)
            error = (rest[:, :, column] - codes[:, :, column]) / upper[:, column, column, None]
            rest[:, :, column + 1 : stop] -= (
                error[:, :, None] * upper[:, None, column, column + 1 : stop]
            )
            errors[:, :, column - start] = error
        rest[:, :, stop:] -= errors @ upper[:, start:stop, stop:]
    return codes


def _error(difference: Array, covariance: Array) -> Array:
    return np.asarray(np.einsum("grk,grk->gr", difference @ covariance, difference))
