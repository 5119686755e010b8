"""TreeLSTMs over words of 300 numbers with states of 150, five classes (Tai et al. 2015)."""

from __future__ import annotations

from typing import Final

import numpy as np

from codesign.compiler.values import Result
from codesign.dtypes import Array
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.module import Module
from experiments.models.network import Weights, linear_weights, program
from experiments.models.trees import Binary, Dependency

INPUT: Final = 300
HIDDEN: Final = 150
CLASSES: Final = 5


def child_sum_weights() -> Weights:
    """Return weights for the child-sum TreeLSTM: gates in the order input, output, update."""
    return linear_weights(
        {
            "Wiou": (3 * HIDDEN, INPUT, True),
            "Uiou": (3 * HIDDEN, HIDDEN, False),
            "Wf": (HIDDEN, INPUT, True),
            "Uf": (HIDDEN, HIDDEN, False),
            "out": (CLASSES, HIDDEN, True),
        }
    )


def child_sum(weights: Weights) -> Module:
    """Return the module: `main(tree, words)` gives the logarithms of the classes' shares."""
    return program(
        "child_sum",
        (
            np.concatenate((weights["Wiou.weight"], weights["Wf.weight"])),
            np.concatenate((weights["Wiou.bias"], weights["Wf.bias"])),
            weights["Uiou.weight"],
            weights["Uf.weight"],
            weights["out.weight"],
            weights["out.bias"],
        ),
    )


def binary_weights() -> Weights:
    """Return weights for the binary TreeLSTM: input, two forget, output and update gates."""
    return linear_weights(
        {
            "Wl": (3 * HIDDEN, INPUT, True),
            "L": (5 * HIDDEN, HIDDEN, True),
            "R": (5 * HIDDEN, HIDDEN, False),
            "out": (CLASSES, HIDDEN, True),
        }
    )


def binary(weights: Weights) -> Module:
    """Return the module: `main(phrase, words)` gives the logarithms of the classes' shares."""
    return program(
        "binary",
        (
            weights["Wl.weight"],
            weights["Wl.bias"],
            np.concatenate((weights["L.weight"], weights["R.weight"]), axis=1),
            weights["L.bias"],
            weights["out.weight"],
            weights["out.bias"],
        ),
    )


def dependency_value(tree: Dependency) -> DataValue:
    """Return a tree as Relay's `Tree[int64]`."""
    return DataValue("Rose", (np.asarray(tree.word), _list(tree.children)))


def _list(trees: tuple[Dependency, ...]) -> Result:
    result = DataValue("Nil")
    for tree in reversed(trees):
        result = DataValue("Cons", (dependency_value(tree), result))
    return result


def binary_value(phrase: Binary) -> DataValue:
    """Return a tree as the program's `Phrase`."""
    if isinstance(phrase, int):
        return DataValue("Word", (np.asarray(phrase),))
    left, right = phrase
    return DataValue("Halves", (binary_value(left), binary_value(right)))


def word_vectors(words: int, seed: int) -> Array:
    """Return random vectors for the words of a sentence."""
    return np.random.default_rng(seed).standard_normal((words, INPUT)).astype(np.float32)
