"""Pages and lines of text, rendered with real fonts: labels are known because we rotate them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Pixels = npt.NDArray[np.uint8]

_VOCABULARY: Final = """
    the of and to in is that for it as was with be by on not he his but at are this have from or
    had an they which one you were all her she there would their we him been has when who will
    no more if out so up said what its about than into them can only other time new some could
    these two may first then do any like my now over such our man me even most made after also
    did many off before must well back through years much where your way down should because
    long each just state people those too mr how little good world make very year still see own
    work men day get here old life both between being under three never know same last another
    while us might great go come since against right came take used himself few house American
    use place during high without again home around small however found Mrs part school thought
    went say general once upon war left every don't does got united number hand course water
    until Invoice Total Amount Date Order Account Street Page Section Figure Table Report
    Summary September Monday Contract Delivery Payment Customer Address Reference Chapter
    Appendix 2019 2024 17 42 100 3.5 1,250.00 No. 8 EUR USD kg 12:30 A4 §3 5% (a) [1] ISO 9001
"""
_WORDS: Final = tuple(_VOCABULARY.split())

_SCALE: Final = 2
"""Pages are drawn this much larger and then reduced, as a scan would be."""


def page(rng: np.random.Generator, fonts: Sequence[Path]) -> Pixels:
    """Return an upright page of text, uint8 Tensor[(341, 256, 3)] or a landscape one, RGB."""
    width, height = (256, int(rng.integers(300, 362)))
    if rng.random() < 0.25:
        width, height = height, width
    paper = int(rng.integers(225, 256))
    image = Image.new("RGB", (width * _SCALE, height * _SCALE), (paper, paper, paper))
    draw = ImageDraw.Draw(image)
    font_file = _pick(rng, fonts)
    size = int(rng.integers(9, 15)) * _SCALE
    margin = int(rng.integers(10, 24)) * _SCALE
    y = margin
    if rng.random() < 0.7:
        title = ImageFont.truetype(str(_pick(rng, fonts)), int(size * 1.6))
        draw.text((margin, y), _sentence(rng, 3).title(), fill=_ink(rng), font=title)
        y += int(size * 2.6)
    body, ink = ImageFont.truetype(str(font_file), size), _ink(rng)
    while y < height * _SCALE - margin - size:
        y = _paragraph(draw, rng, (margin, y, width * _SCALE - margin, height * _SCALE), body, ink)
        y += size
    return np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))


def line(rng: np.random.Generator, fonts: Sequence[Path], height: int, width: int) -> Pixels:
    """Return one upright line of text, uint8 Tensor[(height, at most width, 3)], RGB."""
    font = ImageFont.truetype(str(_pick(rng, fonts)), height * 2)
    text = _sentence(rng, int(rng.integers(2, 5)))
    paper, ink = int(rng.integers(200, 256)), _ink(rng)
    left, top, right, bottom = font.getbbox(text)
    pad = int(rng.integers(4, 20))
    image = Image.new(
        "RGB",
        (int(right - left) + 2 * pad, int(bottom - top) + 2 * pad),
        (paper, paper, int(paper * 0.97)),
    )
    ImageDraw.Draw(image).text((pad - left, pad - top), text, fill=ink, font=font)
    scaled = min(width, -(-image.width * height // image.height))
    return np.asarray(image.resize((scaled, height), Image.Resampling.LANCZOS))


def _paragraph(
    draw: ImageDraw.ImageDraw,
    rng: np.random.Generator,
    box: tuple[int, int, int, int],
    font: ImageFont.FreeTypeFont,
    ink: tuple[int, int, int],
) -> int:
    left, y, right, bottom = box
    for _ in range(int(rng.integers(2, 8))):
        if y + font.size > bottom:
            break
        text = _sentence(rng, 24)
        while font.getlength(text) > right - left:
            text = text.rsplit(" ", 1)[0]
        draw.text((left, y), text, fill=ink, font=font)
        y += int(font.size * 1.35)
    return y


def _sentence(rng: np.random.Generator, words: int) -> str:
    chosen = [_WORDS[i] for i in rng.integers(0, len(_WORDS), words)]
    return " ".join([chosen[0].capitalize(), *chosen[1:]])


def _ink(rng: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = (int(v) for v in rng.integers(0, 90, 3))
    return red, green, blue


def _pick(rng: np.random.Generator, fonts: Sequence[Path]) -> Path:
    return fonts[int(rng.integers(0, len(fonts)))]
