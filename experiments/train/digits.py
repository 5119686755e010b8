"""Training on the digits of scikit-learn: weights and batches, and training in Relay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np

from codesign.compiler.driver import compile as compile_module
from codesign.compiler.gradient import Mode
from codesign.dtypes import Array
from codesign.ir.relay.module import Module
from experiments.networks.digits.data import EVALUATION, samples, training
from experiments.networks.samples import Samples, Split
from experiments.train.step import MOMENTUM, Optimizer, compile_step, initial_state, parameters
from host_runtime.session import Session

BATCH: Final = 64
SEED: Final = 5
RATE: Final = 0.05

Weights: TypeAlias = Mapping[str, Array]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Images, float32 Tensor[(BATCH, 1, 8, 8)]; labels, int32 Tensor[(BATCH,)]; the step size."""

    images: Array
    labels: Array
    rate: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What training made: the weights by name, and the loss of every step."""

    weights: Weights
    losses: tuple[float, ...]


def initial_weights(module: Module, seed: int = SEED) -> dict[str, Array]:
    """Return random weights with unit gain under relu, and biases of zero."""
    rng = np.random.default_rng(seed)
    return {
        name: (
            np.zeros(shape)
            if len(shape) == 1
            else rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        ).astype(np.float32)
        for name, shape in parameters(module).items()
    }


def batches(epochs: int, *, rate: float = RATE, seed: int = SEED) -> Iterator[Batch]:
    """Yield the batches of every epoch; the step size falls to zero along a cosine."""
    data = training()
    labels = _labels(data)
    rng = np.random.default_rng((seed, 1))
    count = len(data) // BATCH
    for epoch in range(epochs):
        order = rng.permutation(len(data))
        for place in range(count):
            chosen = order[place * BATCH : (place + 1) * BATCH]
            done = (epoch * count + place) / (epochs * count)
            yield Batch(
                images=data.inputs[chosen],
                labels=labels[chosen],
                rate=rate * 0.5 * (1 + np.cos(np.pi * done)),
            )


def train(
    module: Module,
    given: Iterator[Batch],
    *,
    optimizer: Optimizer = MOMENTUM,
    mode: Mode = "first_order",
    seed: int = SEED,
    observe: Callable[[int, float], None] = lambda step, loss: None,
) -> Trained:
    """Train a network in Relay, its whole step compiled for the CPU.

    `mode` is that of the gradient: `higher_order` for networks that are no graphs.
    `observe(step, loss)` sees every step.
    """
    session = Session(compile_step(module, optimizer, mode=mode))
    held: dict[str, Array] = {**initial_weights(module, seed), **initial_state(module, optimizer)}
    losses: list[float] = []
    for number, batch in enumerate(given):
        inputs = {"images": batch.images, "labels": batch.labels}
        rate = np.asarray(batch.rate, np.float32)
        held = session.run({**held, **inputs, "rate": rate})
        losses.append(float(held.pop("loss")))
        observe(number, losses[-1])
    weights = {name: held[name] for name in parameters(module)}
    return Trained(weights=weights, losses=tuple(losses))


def accuracy(module: Module, weights: Weights) -> float:
    """Return the share of the evaluation's digits that the network names rightly, 0 to 1."""
    session = Session(compile_module(_answering(module)))
    data = samples(Split.EVALUATION, EVALUATION)
    named = [
        session.run({**weights, "images": part})["output"].argmax(axis=1)
        for part in _parts(data.inputs)
    ]
    return float((np.concatenate(named)[: len(data)] == _labels(data)).mean())


def _answering(module: Module) -> Module:
    """Return the module whose main is `@logits`, without `@loss`."""
    others = {k: each for k, each in module.functions.items() if k not in ("loss", "logits")}
    return module.with_functions({**others, "main": module.functions["logits"]})


def _parts(images: Array) -> Iterator[Array]:
    """Yield the images in batches; the last one is filled up with zeros."""
    missing = -len(images) % BATCH
    whole = np.concatenate([images, np.zeros((missing, *images.shape[1:]), images.dtype)])
    yield from whole.reshape(-1, BATCH, *images.shape[1:])


def _labels(data: Samples) -> Array:
    assert data.labels is not None, "the digits are labelled"
    return data.labels.astype(np.int32)
