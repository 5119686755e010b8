"""Layers to an accelerator kernel: tile, emit, synchronize, check, record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, assert_never

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.isa import Gemm, Instruction, Load, Store, Sync, Vector
from codesign.accel.program import Program, check_program
from codesign.compiler.backends.accel.builder import Builder
from codesign.compiler.backends.accel.fit import refuse, shortage
from codesign.compiler.backends.accel.interleave import interleaved
from codesign.compiler.backends.accel.layer import (
    AddLayer,
    GemmLayer,
    Layer,
    LookupLayer,
    MultiplyLayer,
    WindowLayer,
)
from codesign.compiler.backends.accel.layer_to_nodes import emit_layer
from codesign.compiler.backends.accel.rows import is_of_rows
from codesign.compiler.backends.accel.search import Search, Tuning, cycles_of
from codesign.compiler.backends.accel.synchronize import synchronize
from codesign.diagnostics import CodesignError
from codesign.ir.executable.accel_kernel import AccelKernel, LayerRecord
from codesign.ir.executable.layout import Placement


def emit(
    layers: Sequence[Layer],
    config: AccelConfig,
    *,
    inputs: tuple[tuple[Placement, ...], ...],
    outputs: tuple[Placement, ...],
    tensors: tuple[Placement, ...],
    activation_bytes: int,
    search: Search,
) -> AccelKernel:
    """Return the kernel of layers whose tensors have been placed, tiled as `search` finds best.

    Raises
    ------
    CodesignError
        Layers whose least tile does not fit: all of them, each with the memory and its bytes.
    """
    misfits = [(layer, needs) for layer in layers if (needs := shortage(layer, config))]
    if misfits:
        errors = [refuse(layer, needs, config) for layer, needs in misfits]
        raise CodesignError(*(each for error in errors for each in error.diagnostics))
    choices = search.choose(layers)
    builder = Builder(config)
    bounds = [0]
    for layer, choice in zip(layers, choices, strict=True):
        emit_layer(builder, layer, choice)
        bounds.append(len(builder.nodes))
    order = _order(builder, layers, search.tuning)
    instructions = synchronize([builder.nodes[index] for index in order])
    constants = bytes(builder.constants.image)
    program = Program(
        instructions=instructions,
        digest=config.digest,
        segments=(len(constants), activation_bytes),
    )
    check_program(program, config)
    place = {node: index for index, node in enumerate(order)}
    records = tuple(
        _record(layer, sorted(place[node] for node in range(first, last)), instructions, config)
        for layer, first, last in zip(layers, bounds, bounds[1:], strict=False)
    )
    return AccelKernel(
        config=config,
        program=program,
        constants=constants,
        activation_bytes=activation_bytes,
        inputs=inputs,
        outputs=outputs,
        tensors=tensors,
        layers=records,
    )


_UNITS: Final = {
    GemmLayer: "gemm",
    WindowLayer: "vector",
    AddLayer: "vector",
    MultiplyLayer: "vector",
    LookupLayer: "vector",
}


def _order(builder: Builder, layers: Sequence[Layer], tuning: Tuning | None) -> tuple[int, ...]:
    """Return the order of the nodes: of two, the one that takes fewer cycles."""
    nodes, config = builder.nodes, builder.config
    written = tuple(range(len(nodes)))
    if tuning is None or not all(is_of_rows(layer) for layer in layers):
        return written
    orders = (written, interleaved(nodes, config))
    return min(orders, key=lambda order: cycles_of([nodes[i] for i in order], config, tuning))


def _record(
    layer: Layer, places: Sequence[int], instructions: Sequence[Instruction], config: AccelConfig
) -> LayerRecord:
    gemm = vector = read = written = 0
    for place in places:
        match instructions[place]:
            case Gemm(extents=extents):
                gemm += math.prod(extents)
            case Vector(extents=extents):
                vector += math.prod(extents) * config.vector_passes
            case Load(size=size, memory=memory):
                read += math.prod(size) * config.dram_tile_bytes(memory)
            case Store(size=size):
                written += math.prod(size) * config.dram_tile_bytes(Memory.OUT)
            case Sync():
                pass
            case _ as never:
                assert_never(never)
    beats = (read + written) // config.bus_bytes
    return LayerRecord(
        name=layer.name,
        operator=layer.operator,
        unit=_UNITS[type(layer)],
        output=layer.result.name,
        first=places[0],
        last=places[-1] + 1,
        macs=layer.macs if isinstance(layer, GemmLayer | WindowLayer) else 0,
        bytes_read=read,
        bytes_written=written,
        gemm_cycles=gemm,
        vector_cycles=vector,
        memory_cycles=beats * config.beat_interval,
    )
