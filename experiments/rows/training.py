"""relay-train: networks trained in Relay on labelled digits, beside the same training in NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np

from experiments.rows.measurement import CONSOLE, Measurement
from experiments.train.digits import accuracy, batches, initial_weights, train
from experiments.train.in_numpy import train_in_numpy
from experiments.train.step import network

_EPOCHS: Final = 25
_SHOWN: Final = 50
_COMPARED: Final = 20
"""Steps from the first on whose losses are compared."""


def relay_train(epochs: int = _EPOCHS) -> Measurement:
    """Test accuracy of the convolutional network on scikit-learn's digits, trained in Relay.

    Loss, gradient and optimizer are one Relay function, compiled for the CPU. NumPy trains the same
    network from the same weights on the same batches, with gradients by hand.
    """
    module = network("convolutional")

    def show(step: int, loss: float) -> None:
        if step % _SHOWN == 0:
            CONSOLE.print(f"step {step:4d}  loss {loss:.4f}")

    ours = train(module, batches(epochs), observe=show)
    share = accuracy(module, ours.weights)
    CONSOLE.print(f"{len(ours.losses)} steps in Relay, test accuracy {share:.2%}")
    weights, losses = train_in_numpy(initial_weights(module), batches(epochs))
    theirs = accuracy(module, weights)
    apart = np.abs(np.asarray(losses) / np.asarray(ours.losses) - 1)[:_COMPARED].max()
    CONSOLE.print(
        f"the same in NumPy, test accuracy {theirs:.2%}; "
        f"losses of the first {_COMPARED} steps differ by {apart:.1e} at most"
    )
    return Measurement(value=100 * share, unit="%", digits=2)
