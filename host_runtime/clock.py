"""Measures what placement by cost needs of this machine: kernels, and tensors that cross."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final, final

import numpy as np

from codesign.accel.config import AccelConfig, Memory
from codesign.ir.executable.accel_kernel import ACTIVATIONS
from codesign.ir.executable.cpu_kernel import CpuKernel
from codesign.ir.executable.layout import Placement
from host_runtime.cpu import CpuFunction

_LEAST_CALLS: Final = 5
_LEAST_S: Final = 0.01
_SMALL: Final = 4
_LARGE: Final = 64


def kernel_seconds(kernel: CpuKernel) -> float:
    """Return the seconds of one call of a kernel on zeros: the least of several."""
    function = CpuFunction(kernel)
    inputs = [np.zeros(each.static_shape, each.dtype.numpy) for each in kernel.inputs]
    return _least_seconds(lambda: function(*inputs))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTimes:
    """What a tensor takes from host to accelerator: a fixed time, and its bytes at a bandwidth."""

    copy_s: float
    bytes_per_s: float


def copy_times(config: AccelConfig) -> CopyTimes:
    """Return what laying tensors out in tiles of a configuration takes, from two sizes."""
    small, large = (_tensor(config, side) for side in (_SMALL, _LARGE))
    times = [_least_seconds(_packing(place)) for place in (small, large)]
    sizes = [int(np.prod(place.shape)) for place in (small, large)]
    per_byte = max((times[1] - times[0]) / (sizes[1] - sizes[0]), 1e-12)
    return CopyTimes(copy_s=max(times[0] - sizes[0] * per_byte, 0.0), bytes_per_s=1 / per_byte)


def _tensor(config: AccelConfig, side: int) -> Placement:
    return Placement(
        name="measured",
        shape=(config.batch, 4 * config.block_out, side, side),
        segment=ACTIVATIONS,
        address=0,
        batch=config.batch,
        block=config.block_out,
        tile_bytes=config.dram_tile_bytes(Memory.OUT),
    )


def _packing(place: Placement) -> Callable[[], object]:
    data = np.zeros(place.shape, np.int8)
    memory = np.zeros(place.bytes, np.uint8)

    def run() -> None:
        memory[:] = place.pack(data)

    return run


def _least_seconds(run: Callable[[], object]) -> float:
    """Return the least seconds of a call after a first one, over at least a hundredth of one."""
    run()
    least, spent, calls = float("inf"), 0.0, 0
    while calls < _LEAST_CALLS or spent < _LEAST_S:
        started = perf_counter()
        run()
        elapsed = perf_counter() - started
        least, spent, calls = min(least, elapsed), spent + elapsed, calls + 1
    return least
