"""The 1,797 labelled digits of scikit-learn (8 x 8, BSD-3-Clause), split three ways by a seed."""

from __future__ import annotations

from typing import Final

import numpy as np
from sklearn.datasets import load_digits

from experiments.networks.samples import Samples, Split

EVALUATION: Final = 360
CALIBRATION: Final = 128
CLASSES: Final = tuple("0123456789")


def training() -> Samples:
    """Return what `train.py` learns from: neither evaluated nor used for calibration."""
    return _part(EVALUATION + CALIBRATION, None)


def samples(split: Split, count: int) -> Samples:
    """Return the first `count` digits of a split, fewer where it has not so many."""
    match split:
        case Split.EVALUATION:
            return _part(0, EVALUATION).first(count)
        case Split.CALIBRATION:
            return _part(EVALUATION, EVALUATION + CALIBRATION).first(count)


def _part(start: int, stop: int | None) -> Samples:
    digits = load_digits()
    order = np.random.default_rng(7).permutation(len(digits.target))[start:stop]
    images = (digits.images[order, None] / 16).astype(np.float32)
    return Samples(inputs=images, labels=digits.target[order].astype(np.int64))
