"""Points of the question: what a layer needs, and what of it is left without its transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPoint:
    """One layer of a network behind a bus.

    `cycles` is what the busiest of array, vector unit and memory needs. `fitting` is of tensors
    that the layer before has written and that fit whole; `every` is of all that layers write for
    layers. `…_bytes` are what the layer would no longer move, `…_cycles` what it would need then.
    """

    network: str
    bus_bits: int
    place: int
    layer: str
    operator: str
    cycles: int
    bound: str
    fitting_bytes: int
    fitting_cycles: int
    every_bytes: int
    every_cycles: int
