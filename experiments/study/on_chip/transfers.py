"""Which bytes of its layers a program moves to memory and back, and what is left without them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import Load, Store
from codesign.ir.executable.accel_kernel import ACTIVATIONS, AccelKernel, LayerRecord
from codesign.ir.executable.layout import Placement


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Bytes that one instruction of layer number `layer` moves; of a store, `memory` is `OUT`."""

    layer: int
    tensor: str
    memory: Memory
    bytes: int


@final
@dataclass(frozen=True, slots=True)
class Saved:
    """Bytes that each layer would no longer move, by its number.

    `fitting`: of tensors from the layer before, where they fit whole; `every`: of all that layers
    write for layers.
    """

    fitting: tuple[int, ...]
    every: tuple[int, ...]


def transfers(kernel: AccelKernel) -> Iterator[Transfer]:
    """Yield the transfers of activations, layer by layer."""
    for number, record in enumerate(kernel.layers):
        for instruction in kernel.program.instructions[record.first : record.last]:
            match instruction:
                case Load(segment=segment, memory=memory) if segment == ACTIVATIONS:
                    pass
                case Store():
                    memory = Memory.OUT
                case _:
                    continue
            yield Transfer(
                layer=number,
                tensor=_tensor_at(kernel, instruction.address).name,
                memory=memory,
                bytes=math.prod(instruction.size) * kernel.config.dram_tile_bytes(memory),
            )


def saved(kernel: AccelKernel) -> Saved:
    """Return what layers would not move if tensors between them stayed on chip.

    A tensor's store is saved where all who read it find it on chip; results are always stored, and
    inputs loaded.
    """
    moved = list(transfers(kernel))
    writers: dict[str, set[int]] = {}
    for each in moved:
        if each.memory is Memory.OUT:
            writers.setdefault(each.tensor, set()).add(each.layer)
    loads = [each for each in moved if each.memory is not Memory.OUT and each.tensor in writers]
    next_door = [each for each in loads if writers[each.tensor] == {each.layer - 1}]
    fitting = [each for each in next_door if _fits(kernel, each)]
    return Saved(_bytes(kernel, moved, fitting), _bytes(kernel, moved, loads))


def cycles_without(record: LayerRecord, saved_bytes: int, config: AccelConfig) -> int:
    """Return what the busiest unit needs for a layer that moves so many bytes less."""
    beats = saved_bytes // config.bus_bytes
    memory = record.memory_cycles - beats * config.beat_interval
    return max(record.gemm_cycles, record.vector_cycles, memory)


def _tensor_at(kernel: AccelKernel, address: int) -> Placement:
    """Return the tensor that holds a beat of the activations: of several, the shortest."""
    bus = kernel.config.bus_bytes
    holders = [
        each
        for each in kernel.tensors
        if each.segment == ACTIVATIONS and 0 <= address - each.address < each.bytes // bus
    ]
    return min(holders, key=lambda each: each.bytes)


def _fits(kernel: AccelKernel, load: Transfer) -> bool:
    """Whether both `out` and the memory that is loaded hold a whole tensor."""
    tensor = next(each for each in kernel.tensors if each.name == load.tensor)
    depths = (kernel.config.depth(memory) for memory in (Memory.OUT, load.memory))
    return math.prod(tensor.tiles) <= min(depths)


def _bytes(
    kernel: AccelKernel, moved: Sequence[Transfer], loads: Sequence[Transfer]
) -> tuple[int, ...]:
    """Return the bytes of each layer that are saved with `loads` and the stores nobody needs."""
    left = {each.tensor for each in moved if each.memory is not Memory.OUT and each not in loads}
    left |= {each.name for each in kernel.outputs}
    stores = [each for each in moved if each.memory is Memory.OUT and each.tensor not in left]
    totals = [0] * len(kernel.layers)
    for each in (*loads, *stores):
        totals[each.layer] += each.bytes
    return tuple(totals)
