"""PP-OCR text direction classifier: whether a line of text is upright or upside down.

Weights: rapidocr-onnxruntime (Apache-2.0). Preprocessing is the package's own: height 48, width at
most 192 and zeros to its right, values from -1 to 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from experiments.networks.fonts import font_files
from experiments.networks.packages import BUILD, PackagedFile, Wheel
from experiments.networks.samples import Samples, Split
from experiments.networks.text import Pixels, line

MODEL: Final = PackagedFile(
    wheel=Wheel(
        package="rapidocr-onnxruntime",
        version="1.4.4",
        file_name="rapidocr_onnxruntime-1.4.4-py3-none-any.whl",
        sha256="971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
        licence="Apache-2.0",
    ),
    member="rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    sha256="e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
)
CLASSES: Final = ("0", "180")
HEIGHT: Final = 48
WIDTH: Final = 192


def preprocess(image: Pixels, width: int = WIDTH) -> npt.NDArray[np.float32]:
    """Return float32 Tensor[(3, 48, width)] of an RGB line of height 48 that is no wider."""
    scaled = (image[:, :, ::-1].transpose(2, 0, 1).astype(np.float32) / 255 - 0.5) / 0.5
    padded = np.zeros((3, HEIGHT, width), np.float32)
    padded[:, :, : scaled.shape[2]] = scaled
    return padded


def samples(split: Split, count: int, build: Path = BUILD) -> Samples:
    """Return `count` lines of text, every other one upside down."""
    rng, fonts = split.generator(20), font_files(build)
    labels = np.arange(count, dtype=np.int64) % len(CLASSES)
    lines = [np.rot90(line(rng, fonts, HEIGHT, WIDTH), k=2 * int(label)) for label in labels]
    return Samples(inputs=np.stack([preprocess(each) for each in lines]), labels=labels)
