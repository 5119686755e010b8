"""Recurrent networks over 20 steps, states of 256; and one that writes names letter by letter."""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.dtypes import Array
from codesign.ir.relay.module import Module
from experiments.models.network import SEED, Weights, linear_weights, program

STEPS: Final = 20
HIDDEN: Final = 256
GATES: Final = {"rnn": 1, "gru": 3, "lstm": 4}
"""Gates of each network, in PyTorch's order."""

LETTERS: Final = 59
CATEGORIES: Final = 18
CHARACTER_HIDDEN: Final = 128


def recurrent_weights(kind: str) -> Weights:
    """Return weights of one cell: `wi` for its input, `wh` for its state."""
    gates = GATES[kind] * HIDDEN
    return linear_weights({"wi": (gates, HIDDEN, True), "wh": (gates, HIDDEN, True)})


def recurrent(kind: str, weights: Weights) -> Module:
    """Return the module: `main(x)` gives each step's state, both `(20, 1, 256)`."""
    constants = [weights[name] for name in ("wi.weight", "wi.bias", "wh.weight", "wh.bias")]
    return program(kind, constants)


def sequence(seed: int = SEED) -> Array:
    """Return a random input of 20 steps."""
    return np.random.default_rng(seed).standard_normal((STEPS, 1, HIDDEN)).astype(np.float32)


def character_weights() -> Weights:
    """Return weights for the network that writes names: two layers side by side, then a third."""
    inputs = CATEGORIES + LETTERS + CHARACTER_HIDDEN
    return linear_weights(
        {
            "i2h": (CHARACTER_HIDDEN, inputs, True),
            "i2o": (LETTERS, inputs, True),
            "o2o": (LETTERS, CHARACTER_HIDDEN + LETTERS, True),
        }
    )


def characters(weights: Weights) -> Module:
    """Return the module: `main(category, letter)` gives 20 rows of logarithms of shares."""
    both = np.concatenate((weights["i2h.weight"], weights["i2o.weight"]))
    category, letter, hidden = np.split(both, (CATEGORIES, CATEGORIES + LETTERS), axis=1)
    return program(
        "char_rnn",
        (
            np.ascontiguousarray(category),
            np.concatenate((weights["i2h.bias"], weights["i2o.bias"])),
            np.ascontiguousarray(letter),
            np.ascontiguousarray(letter.T),
            np.ascontiguousarray(hidden),
            weights["o2o.weight"],
            weights["o2o.bias"],
        ),
    )


def character_inputs() -> dict[str, Array]:
    """Return a category and a first letter, one-hot."""
    return {"category": one_hot(3, CATEGORIES), "letter": one_hot(7, LETTERS)}


def one_hot(index: int, length: int) -> Array:
    """Return a row of zeros with a one."""
    row = np.zeros((1, length), dtype=np.float32)
    row[0, index] = 1
    return row
