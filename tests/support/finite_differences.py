"""Directional derivatives by central differences in float64: what gradients are judged by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from codesign.dtypes import Array

Loss = Callable[[Sequence[Array]], float]

STEP = 1e-5


def slope(loss: Loss, args: Sequence[Array], which: int, direction: Array) -> float:
    """Return the derivative of the loss where one argument moves along a direction."""

    def moved(step: float) -> float:
        changed = list(args)
        changed[which] = np.asarray(args[which] + step * direction)
        return loss(changed)

    near = (moved(STEP) - moved(-STEP)) / (2 * STEP)
    far = (moved(2 * STEP) - moved(-2 * STEP)) / (4 * STEP)
    return (4 * near - far) / 3


def check_gradient(
    loss: Loss,
    args: Sequence[Array],
    gradients: Sequence[Array],
    rng: np.random.Generator,
    *,
    directions: int = 2,
    rtol: float = 1e-6,
) -> None:
    """Compare gradients with differences along random directions, argument by argument."""
    for which, (arg, gradient) in enumerate(zip(args, gradients, strict=True)):
        assert gradient.shape == arg.shape
        assert gradient.dtype == arg.dtype
        if arg.dtype != np.float64:
            np.testing.assert_array_equal(gradient, np.zeros_like(arg))
            continue
        for _ in range(directions):
            direction = rng.standard_normal(arg.shape)
            expected = slope(loss, args, which, direction)
            scale = max(1.0, float(np.sum(np.abs(gradient * direction))))
            found = float(np.sum(gradient * direction))
            assert abs(found - expected) <= rtol * scale, f"argument {which}: {found} {expected}"
