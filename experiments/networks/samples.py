"""Labelled inputs of a network, split into what calibrates and what evaluates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import final

import numpy as np
import numpy.typing as npt


class Split(StrEnum):
    """Two sets of samples without a sample in common."""

    CALIBRATION = "calibration"
    EVALUATION = "evaluation"

    def generator(self, seed: int) -> np.random.Generator:
        """Return the random stream of this split; the streams of two splits are independent."""
        return np.random.default_rng((seed, list(Split).index(self)))


@final
@dataclass(frozen=True, kw_only=True)
class Samples:
    """`inputs`: float32 Tensor[(n, c, h, w)]; `labels`: int64 Tensor[(n,)], None where unknown."""

    inputs: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.inputs)

    def first(self, count: int) -> Samples:
        """Return the first samples, at most `count`."""
        labels = None if self.labels is None else self.labels[:count]
        return Samples(inputs=self.inputs[:count], labels=labels)
