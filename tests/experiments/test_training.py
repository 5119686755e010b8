"""Networks trained in Relay learn, step by step as the same training in NumPy does."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from codesign.compiler.interpreter import Interpreter
from experiments.networks.digits.data import EVALUATION, samples, training
from experiments.networks.samples import Split
from experiments.rows.training import relay_train
from experiments.train.digits import accuracy, batches, initial_weights, train
from experiments.train.in_numpy import train_in_numpy
from experiments.train.step import (
    ADAM,
    MOMENTUM,
    Optimizer,
    initial_state,
    network,
    parameters,
    training_step,
)


def test_what_is_evaluated_is_not_trained_on() -> None:
    seen = {image.tobytes() for image in training().inputs}
    kept = samples(Split.EVALUATION, EVALUATION).inputs
    assert len(kept) == EVALUATION
    twins = sum(image.tobytes() in seen for image in kept)
    assert twins == 0


@pytest.mark.parametrize(("name", "steps"), [("perceptron", 20), ("convolutional", 12)])
def test_losses_are_those_of_training_in_numpy(name: str, steps: int) -> None:
    module = network(name)
    ours = train(module, islice(batches(2), steps))
    weights, losses = train_in_numpy(initial_weights(module), islice(batches(2), steps))
    np.testing.assert_allclose(ours.losses, losses, rtol=1e-4)
    assert losses[-1] < 0.9 * losses[0]
    for each in weights:
        np.testing.assert_allclose(ours.weights[each], weights[each], rtol=1e-3, atol=1e-4)


def test_both_modes_of_the_gradient_train_alike() -> None:
    module = network("perceptron")
    plain = train(module, islice(batches(1), 5))
    whole = train(module, islice(batches(1), 5), mode="higher_order")
    np.testing.assert_allclose(plain.losses, whole.losses, rtol=1e-6)


def test_a_recursive_network_learns_as_it_does_in_numpy() -> None:
    module = network("recurrent")
    ours = train(module, batches(8), mode="higher_order")
    weights, losses = train_in_numpy(initial_weights(module), batches(8))
    np.testing.assert_allclose(ours.losses[:20], losses[:20], rtol=1e-4)
    reached = accuracy(module, ours.weights)
    assert reached >= 0.95
    assert abs(reached - accuracy(module, weights)) <= 0.02


def test_the_perceptron_reaches_the_accuracy_of_numpy() -> None:
    module = network("perceptron")
    ours = train(module, batches(20))
    weights, _ = train_in_numpy(initial_weights(module), batches(20))
    reached = accuracy(module, ours.weights)
    assert reached >= 0.96
    assert abs(reached - accuracy(module, weights)) <= 0.01
    assert accuracy(module, initial_weights(module)) < 0.3


@pytest.mark.slow
def test_the_convolutional_network_reaches_ninety_seven_percent() -> None:
    assert relay_train(12).value >= 97


@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM], ids=lambda each: each.name)
def test_a_step_of_the_optimizer_by_hand(optimizer: Optimizer) -> None:
    """The perceptron's step in the interpreter, against the optimizer's formula in NumPy."""
    module = network("perceptron")
    weights = initial_weights(module)
    state = {
        name: np.abs(np.random.default_rng(7).standard_normal(zero.shape)).astype(np.float32)
        for name, zero in initial_state(module, optimizer).items()
    }
    batch = next(batches(1))
    step = training_step(module, optimizer)
    data = {"images": batch.images, "labels": batch.labels}
    result = Interpreter(step).run(**weights, **state, **data, rate=np.asarray(0.1, np.float32))
    names = [*parameters(module), *state, "loss"]
    found = dict(zip(names, map(np.asarray, result), strict=True))
    slopes = _slopes(weights, data)
    for name, slope in slopes.items():
        held = {each: state[f"{name}_{each}"] for each in optimizer.state}
        expected = _moved(optimizer, slope, held)
        np.testing.assert_allclose(
            found[name] - weights[name], expected, rtol=1e-3, atol=1e-5, err_msg=name
        )


def _slopes(weights: dict[str, np.ndarray], data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the gradient: with momentum from rest and a rate of 1, weights move by minus it."""
    module = network("perceptron")
    plain = training_step(module, MOMENTUM)
    rest = initial_state(module, MOMENTUM)
    moved = Interpreter(plain).run(**weights, **rest, **data, rate=np.asarray(1.0, np.float32))
    return {
        name: weights[name] - np.asarray(new) for name, new in zip(weights, moved, strict=False)
    }


def _moved(optimizer: Optimizer, slope: np.ndarray, held: dict[str, np.ndarray]) -> np.ndarray:
    if optimizer is MOMENTUM:
        return 0.9 * held["velocity"] - 0.1 * slope
    mean = 0.9 * held["mean"] + 0.1 * slope
    square = 0.999 * held["square"] + 0.001 * slope**2
    return -0.1 * mean / (np.sqrt(square) + 1e-8)
