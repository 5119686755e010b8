"""Named configurations. In each, the bus is no wider than an `inp` tile: no beat is wasted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from codesign.accel.config import AccelConfig
from codesign.diagnostics import CodesignError

BASE: Final = AccelConfig()
"""1x16x16, VTA's shape and memories: inp 32 KiB, wgt 256 KiB, acc 128 KiB."""

TINY: Final = AccelConfig(
    block_in=4,
    block_out=4,
    inp_depth=1024,
    wgt_depth=1024,
    vec_depth=1024,
    acc_depth=1024,
    out_depth=1024,
    param_depth=256,
    lut_depth=512,
    vector_lanes=4,
    bus_bits=32,
    burst_beats=16,
    outstanding=4,
    queue_depth=4,
    clock_mhz=50,
)
"""1x4x4 for small FPGAs."""

EDGE: Final = AccelConfig(block_in=8, block_out=8, vector_lanes=8, clock_mhz=50)
"""1x8x8; fits an LFE5U-85F."""

BATCH4: Final = AccelConfig(
    batch=4,
    block_in=8,
    block_out=8,
    inp_depth=1024,
    wgt_depth=4096,
    vec_depth=1024,
    acc_depth=1024,
    out_depth=1024,
)
"""4x8x8: as many multipliers and bytes as `base`."""

BATCH16: Final = AccelConfig(
    batch=16,
    block_in=4,
    block_out=4,
    inp_depth=512,
    wgt_depth=16384,
    vec_depth=512,
    acc_depth=512,
    out_depth=512,
)
"""16x4x4: as many multipliers and bytes as `base`."""

WIDE: Final = AccelConfig(
    block_in=32, block_out=32, wgt_depth=512, vector_lanes=32, bus_bits=128, outstanding=16
)
"""1x32x32."""

PRESETS: Final[Mapping[str, AccelConfig]] = MappingProxyType(
    {
        "tiny": TINY,
        "edge": EDGE,
        "base": BASE,
        "batch4": BATCH4,
        "batch16": BATCH16,
        "wide": WIDE,
    }
)


def preset(name: str) -> AccelConfig:
    """Return a named configuration.

    Raises
    ------
    CodesignError
        There is no preset of that name.

    Examples
    --------
    >>> preset("base").macs
    256
    """
    if name not in PRESETS:
        raise CodesignError.of(
            f"there is no preset {name!r}", help=f"the presets are {', '.join(PRESETS)}"
        )
    return PRESETS[name]
