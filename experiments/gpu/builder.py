"""What networks are written in once, to be built in Relay and in PyTorch alike."""

from __future__ import annotations

from typing import Protocol, TypeVar

from codesign.dtypes import Array

T = TypeVar("T")


class Builder(Protocol[T]):
    """Operations on images [n, c, h, w] and sequences [n, time, feature]."""

    def conv(
        self, x: T, weight: Array, bias: Array, *, stride: int, padding: int, groups: int = 1
    ) -> T:
        """Convolve."""
        ...

    def relu(self, x: T) -> T:
        """Hold above 0."""
        ...

    def relu6(self, x: T) -> T:
        """Hold within 0 and 6."""
        ...

    def add(self, x: T, y: T) -> T:
        """Add."""
        ...

    def max_pool(self, x: T) -> T:
        """Take the greatest of windows of 3 x 3 in steps of 2, padded by 1."""
        ...

    def mean_pool(self, x: T) -> T:
        """Return the mean of each plane, as [n, c]."""
        ...

    def dense(self, x: T, weight: Array, bias: Array) -> T:
        """Multiply the last axis by a weight [out, in]."""
        ...

    def gelu(self, x: T) -> T:
        """Return x times the share of the normal distribution below x."""
        ...

    def layer_norm(self, x: T, gamma: Array, beta: Array) -> T:
        """Normalize the last axis."""
        ...

    def attention(self, query: T, key: T, value: T, heads: int, width: int) -> T:
        """Attend with heads side by side on the last axis, each as wide as told."""
        ...

    def lstm(self, x: T, of_input: Array, of_state: Array, bias: Array) -> T:
        """Return the last state; gates are input, forget, cell, output."""
        ...
