"""The recurrent and tree-shaped networks in NumPy, written from their papers, in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from experiments.models.trees import Binary, Dependency

Wide = NDArray[np.float64]
Narrow = Mapping[str, NDArray[np.float32]]


class Layers:
    """Linear layers by name."""

    def __init__(self, weights: Narrow) -> None:
        self.weights = {name: array.astype(np.float64) for name, array in weights.items()}

    def __call__(self, name: str, x: Wide) -> Wide:
        product = x @ self.weights[f"{name}.weight"].T
        return product + self.weights.get(f"{name}.bias", 0.0)


def sigmoid(x: Wide) -> Wide:
    return 1 / (1 + np.exp(-x))


def log_softmax(x: Wide) -> Wide:
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def child_sum(weights: Narrow, tree: Dependency, words: Wide) -> Wide:
    layer = Layers(weights)

    def node(at: Dependency) -> tuple[Wide, Wide]:
        states = [node(child) for child in at.children]
        x = words[at.word]
        h = sum((h for h, _ in states), np.zeros(150))
        i, o, u = np.split(layer("Wiou", x) + layer("Uiou", h), 3)
        c = sigmoid(i) * np.tanh(u)
        for h_child, c_child in states:
            c = c + sigmoid(layer("Wf", x) + layer("Uf", h_child)) * c_child
        return sigmoid(o) * np.tanh(c), c

    return log_softmax(layer("out", node(tree)[0]))


def binary(weights: Narrow, phrase: Binary, words: Wide) -> Wide:
    layer = Layers(weights)

    def node(at: Binary) -> tuple[Wide, Wide]:
        if isinstance(at, int):
            i, o, u = np.split(layer("Wl", words[at]), 3)
            c = sigmoid(i) * np.tanh(u)
            return sigmoid(o) * np.tanh(c), c
        (h_left, c_left), (h_right, c_right) = node(at[0]), node(at[1])
        i, left, right, o, u = np.split(layer("L", h_left) + layer("R", h_right), 5)
        c = sigmoid(i) * np.tanh(u) + sigmoid(left) * c_left + sigmoid(right) * c_right
        return sigmoid(o) * np.tanh(c), c

    return log_softmax(layer("out", node(phrase)[0]))


def recurrent(kind: str, weights: Narrow, sequence: Wide) -> Wide:
    layer = Layers(weights)
    h, c, rows = np.zeros((1, 256)), np.zeros((1, 256)), []
    for x in sequence:
        from_input, from_state = layer("wi", x), layer("wh", h)
        match kind:
            case "rnn":
                h = np.tanh(from_input + from_state)
            case "gru":
                (r, z, n), (r_h, z_h, n_h) = (np.split(a, 3, 1) for a in (from_input, from_state))
                n = np.tanh(n + sigmoid(r + r_h) * n_h)
                h = n + sigmoid(z + z_h) * (h - n)
            case _:
                i, f, g, o = np.split(from_input + from_state, 4, 1)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    return np.stack(rows)


def characters(weights: Narrow, category: Wide, letter: Wide) -> Wide:
    layer = Layers(weights)
    h, rows = np.zeros((1, 128)), []
    for _ in range(20):
        joined = np.concatenate((category, letter, h), axis=1)
        h, out = layer("i2h", joined), layer("i2o", joined)
        out = log_softmax(layer("o2o", np.concatenate((h, out), axis=1)))
        rows.append(out)
        letter = np.eye(59)[out.argmax(axis=1)]
    return np.concatenate(rows)
