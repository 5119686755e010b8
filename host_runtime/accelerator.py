"""Runs accelerator kernels: lays out memory, packs inputs, starts the program, unpacks results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import PAGE_BYTES
from codesign.accel.program import require_digest
from codesign.dtypes import Array
from codesign.ir.executable.accel_kernel import AccelKernel
from codesign.ir.executable.layout import Placement
from codesign.sim.simulator import Outcome, Progress, Simulator

_CONSTANTS_BASE: Final = 0


@final
@dataclass(frozen=True, slots=True, eq=False)
class AcceleratorRun:
    """What one run left behind: its outcome and the memory, from which any tensor can be read."""

    kernel: AccelKernel
    outcome: Outcome
    activations: NDArray[np.uint8]

    def read(self, place: Placement) -> Array:
        """Return a tensor of the run: int8 of the placement's shape."""
        start = place.address * self.kernel.config.bus_bytes
        return place.unpack(self.activations[start : start + place.bytes])

    def tensors(self) -> dict[str, Array]:
        """Return every layer's result by its name, in the order of execution."""
        places = {place.name: place for place in self.kernel.tensors}
        return {layer.output: self.read(places[layer.output]) for layer in self.kernel.layers}


@final
class AcceleratorFunction:
    """A kernel on a device; call it with int8 arrays.

    Parameters
    ----------
    kernel
        The program with its constants and placements.
    device
        Any simulator of the same hardware; a CodesignError refuses another.
    """

    def __init__(self, kernel: AccelKernel, device: Simulator) -> None:
        require_digest(kernel.program, device.config)
        self._kernel = kernel
        self._device = device
        self._activations_base = -(-len(kernel.constants) // PAGE_BYTES) * PAGE_BYTES

    def run(self, arrays: tuple[Array, ...], progress: Progress | None = None) -> AcceleratorRun:
        """Run the program once, from memory that holds constants and inputs and else zeros."""
        kernel = self._kernel
        base = self._activations_base
        dram = np.zeros(base + kernel.activation_bytes, np.uint8)
        dram[: len(kernel.constants)] = np.frombuffer(kernel.constants, np.uint8)
        activations = dram[base:]
        for array, places in zip(arrays, kernel.inputs, strict=True):
            for place in places:
                start = place.address * kernel.config.bus_bytes
                activations[start : start + place.bytes] = place.pack(array)
        outcome = self._device.run(kernel.program, dram, (_CONSTANTS_BASE, base), progress)
        return AcceleratorRun(kernel, outcome, activations)

    def results(self, run: AcceleratorRun) -> tuple[Array, ...]:
        """Return the kernel's results of a run."""
        return tuple(run.read(place) for place in self._kernel.outputs)
