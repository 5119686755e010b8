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
from codesign.compiler.backends.accel.layer import (
    AddLayer,
    GemmLayer,
    Layer,
    LookupLayer,
    MultiplyLayer,
    WindowLayer,
)
from codesign.compiler.backends.accel.layer_to_nodes import emit_layer
from codesign.compiler.backends.accel.search import Search, Tuning
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
    tuning: Tuning | None = None,
) -> AccelKernel:
    """Return the kernel of layers whose tensors have been placed, tiled as `tuning` finds best.

    Raises
    ------
    CodesignError
        Layers whose least tile does not fit: all of them, each with the memory and its bytes.
    """
    misfits = [(layer, needs) for layer in layers if (needs := shortage(layer, config))]
    if misfits:
        errors = [refuse(layer, needs, config) for layer, needs in misfits]
        raise CodesignError(*(each for error in errors for each in error.diagnostics))
    choices = Search(config, tuning).choose(layers)
    builder = Builder(config)
    bounds = [0]
    for layer, choice in zip(layers, choices, strict=True):
        emit_layer(builder, layer, choice)
        bounds.append(len(builder.nodes))
    instructions = synchronize(builder.nodes)
    constants = bytes(builder.constants.image)
    program = Program(
        instructions=instructions,
        digest=config.digest,
        segments=(len(constants), activation_bytes),
    )
    check_program(program, config)
    records = tuple(
        _record(layer, instructions[first:last], first, config)
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


def _record(
    layer: Layer, instructions: Sequence[Instruction], first: int, config: AccelConfig
) -> LayerRecord:
    gemm = vector = read = written = 0
    for instruction in instructions:
        match instruction:
            case Gemm():
                gemm += math.prod(instruction.extents)
            case Vector():
                vector += math.prod(instruction.extents) * config.vector_passes
            case Load():
                read += math.prod(instruction.size) * config.dram_tile_bytes(instruction.memory)
            case Store():
                written += math.prod(instruction.size) * config.dram_tile_bytes(Memory.OUT)
            case Sync():
                pass
            case _:
                assert_never(instruction)
    beats = (read + written) // config.bus_bytes
    return LayerRecord(
        name=layer.name,
        operator=layer.operator,
        unit=_UNITS[type(layer)],
        output=layer.result.name,
        first=first,
        last=first + len(instructions),
        macs=layer.macs if isinstance(layer, GemmLayer | WindowLayer) else 0,
        bytes_read=read,
        bytes_written=written,
        gemm_cycles=gemm,
        vector_cycles=vector,
        memory_cycles=beats * config.beat_interval,
    )
