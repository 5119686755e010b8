"""PP-OCRv4 text recognizer: which character, of 6,625, each of 40 places of a line shows.

Convolutions, then two blocks of attention over the places. Weights: rapidocr-onnxruntime
(Apache-2.0). Preprocessing is the package's own: height 48, zeros to the right of a line, values
from -1 to 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from experiments.networks.direction import MODEL as DIRECTION
from experiments.networks.direction import preprocess
from experiments.networks.fonts import font_files
from experiments.networks.packages import BUILD, PackagedFile
from experiments.networks.samples import Samples, Split
from experiments.networks.text import line

MODEL: Final = PackagedFile(
    wheel=DIRECTION.wheel,
    member="rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    sha256="48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
)
HEIGHT: Final = 48
WIDTH: Final = 320


def samples(split: Split, count: int, build: Path = BUILD) -> Samples:
    """Return `count` upright lines of text, float32 Tensor[(count, 3, 48, 320)], without labels."""
    rng, fonts = split.generator(50), font_files(build)
    lines = [preprocess(line(rng, fonts, HEIGHT, WIDTH), WIDTH) for _ in range(count)]
    return Samples(inputs=np.stack(lines), labels=None)
