"""Weights to integers such that the layer's result, not each weight, is as near as possible.

The error of a row of weights is e' C e, with C the covariance of what the row is multiplied by.
Columns are rounded one after another, each after it took over what the errors of the columns
before it do to the result. With C = (I + U) D (I + U)', U strictly upper triangular, that is
column j + (errors of the columns before it) @ U[:, j].

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers" (ICLR 2023), with columns in order of falling variance, in the form that needs no
inverse: Chee et al., "QuIP: 2-Bit Quantization of Large Language Models With Guarantees" (NeurIPS
2023), theorem 6.
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
        lower = np.linalg.cholesky(scaled[:, ::-1, ::-1])
    except np.linalg.LinAlgError:  # no covariance: rounding errors of its sums made it indefinite
        return plain
    upper = lower[:, ::-1, ::-1]
    feedback = upper / np.einsum("gkk->gk", upper)[:, None, :]
    columns = np.take_along_axis(values.transpose(0, 2, 1), order[:, :, None], axis=1)
    rounded = _one_by_one(columns, feedback.transpose(0, 2, 1), limit)
    back = np.argsort(order, axis=1)[:, :, None]
    codes = np.take_along_axis(rounded, back, axis=1).transpose(0, 2, 1)
    is_better = _error(codes - values, covariance) < _error(plain - values, covariance)
    return np.where(is_better[:, :, None], codes, plain)


def _one_by_one(columns: Array, feedback: Array, limit: int) -> Array:
    """Round columns [groups, taps, rows] in order; column j takes over feedback[j, k] of error k.

    Errors are handed on within a block at once, to the columns behind it block by block.
    """
    taps = columns.shape[1]
    wanted, codes = columns.copy(), np.empty_like(columns)
    for start in range(0, taps, _BLOCK):
        stop = min(start + _BLOCK, taps)
        for column in range(start, stop):
            codes[:, column] = nearest(wanted[:, column], limit)
            error = columns[:, column] - codes[:, column]
            wanted[:, column + 1 : stop] += (
                feedback[:, column + 1 : stop, column, None] * error[:, None, :]
            )
        errors = columns[:, start:stop] - codes[:, start:stop]
        wanted[:, stop:] += feedback[:, stop:, start:stop] @ errors
    return codes


def _error(difference: Array, covariance: Array) -> Array:
    return np.asarray(np.einsum("grk,grk->gr", difference @ covariance, difference))
