"""What a GPU offers: limits by which schedules choose tiles, before any device is in reach.

Source: NVIDIA, CUDA C++ Programming Guide, technical specifications per compute capability.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, final

from codesign.diagnostics import CodesignError
from codesign.ir.simt.matrix import Mma

_KIB: Final = 1024


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceModel:
    """Limits of one kind of device; `architecture` is LLVM's name for its instruction set.

    `shared_bytes` is what a block gets without asking the driver for more, `shared_limit_bytes`
    what it gets at most. `float32` is how products of float32 are summed on tensor cores; None
    leaves them to the other units.
    """

    architecture: str
    multiprocessors: int
    threads_per_block: int = 1024
    threads_per_multiprocessor: int = 2048
    shared_bytes: int = 48 * _KIB
    shared_limit_bytes: int = 99 * _KIB
    registers_per_thread: int = 255
    blocks: int = 2**31 - 1
    float32: Mma | None = Mma.SPLIT

    @property
    def has_tensor_cores(self) -> bool:
        """Whether there are asynchronous copies and the products of `Mma`: from sm_80 on."""
        return _number(self.architecture) >= 80


DEVICES: Final[Mapping[str, DeviceModel]] = MappingProxyType(
    {
        model.architecture: model
        for model in (
            DeviceModel(architecture="sm_70", multiprocessors=80, shared_limit_bytes=96 * _KIB),
            DeviceModel(
                architecture="sm_75",
                multiprocessors=40,
                threads_per_multiprocessor=1024,
                shared_limit_bytes=64 * _KIB,
            ),
            DeviceModel(architecture="sm_80", multiprocessors=108, shared_limit_bytes=163 * _KIB),
            DeviceModel(architecture="sm_86", multiprocessors=84, threads_per_multiprocessor=1536),
            DeviceModel(architecture="sm_89", multiprocessors=128, threads_per_multiprocessor=1536),
            DeviceModel(architecture="sm_90", multiprocessors=132, shared_limit_bytes=227 * _KIB),
            DeviceModel(architecture="sm_90a", multiprocessors=132, shared_limit_bytes=227 * _KIB),
        )
    }
)
"""A model of a device by architecture; the multiprocessors are those of the largest common part."""

DEFAULT: Final = DEVICES["sm_80"]


PRECISIONS: Final[Mapping[str, Mma]] = MappingProxyType(
    {"float32": Mma.SPLIT, "tf32": Mma.TF32, "bf16": Mma.BF16}
)
"""How products of float32 are summed, by name."""


def with_precision(device: DeviceModel, precision: str) -> DeviceModel:
    """Return the model with another precision; refuse one that there is not."""
    if precision not in PRECISIONS:
        raise CodesignError.of(
            f"there is no precision {precision!r}", found=f"known are {', '.join(PRECISIONS)}"
        )
    return replace(device, float32=PRECISIONS[precision])


def device_named(architecture: str) -> DeviceModel:
    """Return the model of an architecture; refuse one that there is no model of."""
    if architecture not in DEVICES:
        raise CodesignError.of(
            f"there is no model of GPU architecture {architecture!r}",
            found=f"known are {', '.join(DEVICES)}",
        )
    return DEVICES[architecture]


def device_for(architecture: str, multiprocessors: int, shared_limit_bytes: int) -> DeviceModel:
    """Return the model of a device that is there, by what it says of itself.

    A device newer than all models is taken as the newest older one.
    """
    known = [name for name in DEVICES if _number(name) <= _number(architecture) and name[-1] != "a"]
    if not known:
        return device_named(architecture)
    nearest = max(known, key=_number)
    return replace(
        DEVICES[nearest],
        multiprocessors=multiprocessors,
        shared_limit_bytes=min(shared_limit_bytes, DEVICES[nearest].shared_limit_bytes),
    )


def _number(architecture: str) -> int:
    return int("".join(filter(str.isdigit, architecture)))
