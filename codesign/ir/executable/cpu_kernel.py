"""What the CPU backend hands to the runtime: object code with everything it needs to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from codesign.ir.relay.types import TensorType

ALIGNMENT: Final = 64
"""Bytes to which constants, workspace and every part of them are aligned."""


@final
@dataclass(frozen=True, slots=True)
class CpuKernel:
    """One native function for a whole Relay function.

    The symbol is `void entry(void **pointers)`; the pointers are the constants, the workspace,
    the inputs, the outputs and one byte for each of `checks`, in that order. Constants and
    workspace are aligned to `ALIGNMENT`, inputs and outputs to their elements; all are dense and
    row-major. A byte that is not 0 after a run says that the inputs made the mistake that its check
    names; the outputs have no meaning then.
    """

    object_code: bytes
    symbol: str
    triple: str
    cpu: str
    features: str
    constants: bytes
    workspace_bytes: int
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    checks: tuple[str, ...] = ()
