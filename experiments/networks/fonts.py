"""Real fonts from packages: DejaVu comes with matplotlib, the others are fetched and pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import matplotlib as mpl

from experiments.networks.packages import BUILD, PackagedFile, Wheel, fetch

_LATO: Final = Wheel(
    package="font-lato",
    version="0.1.0",
    file_name="font_lato-0.1.0-py3-none-any.whl",
    sha256="ff74f2d4647187bac4b853ab8215e6b2afe124fcd01c809629aadd8f4356e959",
    licence="OFL-1.1",
)
_SOURCE_SANS: Final = Wheel(
    package="font-source-sans-pro",
    version="0.0.1",
    file_name="font_source_sans_pro-0.0.1-py3-none-any.whl",
    sha256="2250396f565a0fea35726e56059216d1d5d75071d64d075ebdfec183b4b85765",
    licence="OFL-1.1",
)
_SOURCE_SERIF: Final = Wheel(
    package="font-source-serif-pro",
    version="0.0.1",
    file_name="font_source_serif_pro-0.0.1-py3-none-any.whl",
    sha256="38dd9a8d8027d22aa8ef2d10d27d7c558701b32772ff9f3790f509577e91dca4",
    licence="OFL-1.1",
)

FONTS: Final = (
    PackagedFile(
        wheel=_LATO,
        member="font_lato/files/Lato-Regular.ttf",
        sha256="e82542aed8293f49fc83c4aaea566b1f6b4fc7a9ab5da11e6fb9bc0973b5324b",
    ),
    PackagedFile(
        wheel=_LATO,
        member="font_lato/files/Lato-Bold.ttf",
        sha256="d7f0b7f2570f2f28b504da1181b4d71b1420b10be2c4fd690927f1c8ee3b19c3",
    ),
    PackagedFile(
        wheel=_LATO,
        member="font_lato/files/Lato-Italic.ttf",
        sha256="3be26bf6973f49df6a7dfd130041017354342bfbb023e6b9610b42daeba6de34",
    ),
    PackagedFile(
        wheel=_SOURCE_SANS,
        member="font_source_sans_pro/files/SourceSansPro-Regular.ttf",
        sha256="b77f3a700edd0fc0dec73258f882d5c3926c77f5caf6800a201d2166568d2309",
    ),
    PackagedFile(
        wheel=_SOURCE_SANS,
        member="font_source_sans_pro/files/SourceSansPro-Semibold.ttf",
        sha256="b440fd42fd5a54e1b252731deca9cc86604bee6ffa99281f5874c3476eb17eae",
    ),
    PackagedFile(
        wheel=_SOURCE_SERIF,
        member="font_source_serif_pro/files/SourceSerifPro-Regular.ttf",
        sha256="b4e0771f06d8f6573a535312762b0b2f4fb9a03372239e39b0e7cf203da8ea9a",
    ),
    PackagedFile(
        wheel=_SOURCE_SERIF,
        member="font_source_serif_pro/files/SourceSerifPro-Bold.ttf",
        sha256="78041207a9c5166a82d41676d4c87f4c5ba4e1c13ac654e6e9e3538a5a0b0525",
    ),
    PackagedFile(
        wheel=_SOURCE_SERIF,
        member="font_source_serif_pro/files/SourceSerifPro-It.ttf",
        sha256="13e315bc49bd04ef89228db5fbc793e407d76f9ffadda4e5e08894fb474736eb",
    ),
)
_DEJAVU: Final = ("DejaVuSans.ttf", "DejaVuSerif.ttf", "DejaVuSans-Bold.ttf")


def font_files(build: Path = BUILD) -> tuple[Path, ...]:
    """Return the font files in a fixed order, fetching those that are not there yet.

    Raises
    ------
    PackageUnavailableError
        A font cannot be fetched.
    """
    bundled = Path(mpl.get_data_path()) / "fonts" / "ttf"
    return (*(bundled / name for name in _DEJAVU), *(fetch(font, build) for font in FONTS))
