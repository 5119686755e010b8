"""What the GPU backend hands to the runtime: PTX with everything it needs to be launched."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from codesign.ir.relay.types import TensorType

DEVICE_ALIGNMENT: Final = 256
"""Bytes to which every tensor in a device's memory is aligned."""


class DeviceMemory(StrEnum):
    """A stretch of the device's memory."""

    CONSTANTS = "constants"
    WORKSPACE = "workspace"
    INPUT = "input"
    OUTPUT = "output"


@final
@dataclass(frozen=True, slots=True)
class DevicePointer:
    """An operand: an offset in bytes into constants or workspace, or the number of a tensor.

    Outputs beyond those of the function are one byte for each of its checks.
    """

    memory: DeviceMemory
    place: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch:
    """One launch of a symbol: blocks of threads in one dimension, and its operands in order.

    It waits for the launches `after`, by their numbers in the kernel: all before it, and none that
    another of them waits for. `shared_bytes` is the shared memory of a block beyond what the symbol
    names itself.
    """

    symbol: str
    blocks: int
    threads: int
    operands: tuple[DevicePointer, ...]
    label: str
    after: tuple[int, ...]
    shared_bytes: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKernel:
    """A whole Relay function on a GPU: launches, of which some wait for others.

    Inputs and outputs are dense and row-major. A check's byte that is not 0 after a run says that
    the inputs made the mistake which the check names; the outputs have no meaning then.
    """

    ptx: str
    architecture: str
    launches: tuple[KernelLaunch, ...]
    constants: bytes
    workspace_bytes: int
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    checks: tuple[str, ...] = ()
