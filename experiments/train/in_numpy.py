"""The same networks trained in NumPy with gradients by hand, to compare with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from codesign.dtypes import Array
from experiments.train.digits import Batch

_MOMENTUM: Final = 0.9

Named = dict[str, Array]


def train_in_numpy(
    weights: Mapping[str, Array], given: Iterable[Batch]
) -> tuple[Named, list[float]]:
    """Return trained weights and the loss of every step of descent with momentum.

    Which network it is the names of its weights tell.
    """
    held = {name: value.copy() for name, value in weights.items()}
    velocity = {name: np.zeros_like(value) for name, value in held.items()}
    losses: list[float] = []
    for batch in given:
        loss, slopes = _slopes(held, batch)
        losses.append(loss)
        for name, slope in slopes.items():
            velocity[name] = _MOMENTUM * velocity[name] - np.float32(batch.rate) * slope
            held[name] = held[name] + velocity[name]
    return held, losses


def _slopes(w: Named, batch: Batch) -> tuple[float, Named]:
    if "first_weight" in w:
        return _convolutional(w, batch)
    return _recurrent(w, batch) if "state_weight" in w else _perceptron(w, batch)


def _loss(logits: Array, labels: Array) -> tuple[float, Array]:
    """Return the mean cross-entropy of a batch and what flows back into the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float((np.log(total[:, 0]) - shifted[rows, labels]).mean())
    back = powers / total
    back[rows, labels] -= 1
    return loss, back / np.float32(len(labels))


def _head(w: Named, features: Array, labels: Array) -> tuple[float, Named, Array]:
    """Run and reverse the two dense layers that both networks end with."""
    before = features @ w["hidden_weight"].T + w["hidden_bias"]
    hidden = np.maximum(before, 0)
    loss, back = _loss(hidden @ w["output_weight"].T + w["output_bias"], labels)
    inner = (back @ w["output_weight"]) * (before > 0)
    slopes = {
        "output_weight": back.T @ hidden,
        "output_bias": back.sum(axis=0),
        "hidden_weight": inner.T @ features,
        "hidden_bias": inner.sum(axis=0),
    }
    return loss, slopes, inner @ w["hidden_weight"]


def _perceptron(w: Named, batch: Batch) -> tuple[float, Named]:
    loss, slopes, _ = _head(w, batch.images.reshape(len(batch.images), -1), batch.labels)
    return loss, slopes


def _recurrent(w: Named, batch: Batch) -> tuple[float, Named]:
    """Run and reverse eight steps, one for each row of the images."""
    rows = batch.images[:, 0].transpose(1, 0, 2)
    states = [np.zeros((len(batch.images), len(w["state_bias"])), np.float32)]
    for row in rows:
        fed = row @ w["input_weight"].T + states[-1] @ w["state_weight"].T
        states.append(np.tanh(fed + w["state_bias"]))
    loss, back = _loss(states[-1] @ w["output_weight"].T + w["output_bias"], batch.labels)
    slopes = {name: np.zeros_like(value) for name, value in w.items()}
    slopes["output_weight"] = back.T @ states[-1]
    slopes["output_bias"] = back.sum(axis=0)
    to_state = back @ w["output_weight"]
    for row, before, after in reversed(list(zip(rows, states, states[1:], strict=False))):
        inner = to_state * (1 - after**2)
        slopes["input_weight"] += inner.T @ row
        slopes["state_weight"] += inner.T @ before
        slopes["state_bias"] += inner.sum(axis=0)
        to_state = inner @ w["state_weight"]
    return loss, slopes


def _convolutional(w: Named, batch: Batch) -> tuple[float, Named]:
    a = _convolve(batch.images, w["first_weight"]) + w["first_bias"][:, None, None]
    b = np.maximum(a, 0)
    c = _convolve(b, w["second_weight"]) + w["second_bias"][:, None, None]
    d = np.maximum(c, 0)
    n, channels, height, width = d.shape
    blocks = d.reshape(n, channels, height // 2, 2, width // 2, 2)
    pooled = blocks.max(axis=(3, 5), keepdims=True)
    loss, slopes, back = _head(w, pooled.reshape(n, -1), batch.labels)
    best = (blocks == pooled).astype(np.float32)
    share = best / best.sum(axis=(3, 5), keepdims=True) * back.reshape(pooled.shape)
    to_c = share.reshape(d.shape) * (c > 0)
    turned = w["second_weight"].transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    to_a = _convolve(to_c, turned) * (a > 0)
    slopes["second_weight"] = _weight_slope(b, to_c)
    slopes["second_bias"] = to_c.sum(axis=(0, 2, 3))
    slopes["first_weight"] = _weight_slope(batch.images, to_a)
    slopes["first_bias"] = to_a.sum(axis=(0, 2, 3))
    return loss, slopes


def _windows(images: Array) -> Iterator[tuple[int, int, Array]]:
    """Yield, for each place of a 3 x 3 window, what it meets: Tensor[(n, c, h * w)]."""
    n, channels, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for i in range(3):
        for j in range(3):
            yield i, j, padded[:, :, i : i + height, j : j + width].reshape(n, channels, -1)


def _convolve(images: Array, weight: Array) -> Array:
    n, _, height, width = images.shape
    result = np.zeros((n, len(weight), height * width), images.dtype)
    for i, j, window in _windows(images):
        result += weight[:, :, i, j] @ window
    return result.reshape(n, -1, height, width)


def _weight_slope(images: Array, back: Array) -> Array:
    flat = back.reshape(*back.shape[:2], -1)
    slope = np.zeros((back.shape[1], images.shape[1], 3, 3), images.dtype)
    for i, j, window in _windows(images):
        slope[:, :, i, j] = (flat @ window.transpose(0, 2, 1)).sum(axis=0)
    return slope
