"""Whether a layer's least tile fits the memories, and what to say where it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar, final

from codesign.accel.config import AccelConfig, Memory
from codesign.compiler.backends.accel.layer import (
    AddLayer,
    GemmLayer,
    Layer,
    LookupLayer,
    MultiplyLayer,
    WindowLayer,
)
from codesign.compiler.backends.accel.pool import most_sums
from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import Array

Tiles = TypeVar("Tiles", int, Array)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsMore:
    """A memory that is too small for the least tile of a layer, in tiles."""

    memory: Memory
    needed: int


def shortage(layer: Layer, config: AccelConfig) -> tuple[NeedsMore, ...]:
    """Return the memories that cannot hold the least tile of a layer; empty where it fits."""
    least: dict[Memory, int] = {Memory.OUT: 1}
    match layer:
        case GemmLayer():
            sums = most_sums(layer, (1, 1))
            least[Memory.INP] = math.prod(layer.window.extent(sums))
            least[Memory.WGT] = math.prod(layer.window.kernel)
            least[Memory.PARAM] = gemm_params(layer, 1)
            least[Memory.ACC] = config.acc_banks * math.prod(sums)
            if layer.residual is not None:
                least[Memory.VEC] = math.prod(sums)
        case WindowLayer():
            extent = layer.window.extent((1, 1))
            least[Memory.VEC] = extent[0] * extent[1]
            least[Memory.PARAM] = param_tiles(layer)
        case AddLayer():
            least[Memory.VEC] = 2
            least[Memory.PARAM] = 2
        case MultiplyLayer():
            least[Memory.VEC] = 2
            least[Memory.PARAM] = 1
        case LookupLayer():
            least[Memory.VEC] = 1
    if layer.epilogue.table is not None:
        least[Memory.LUT] = 256
    return tuple(
        NeedsMore(memory=memory, needed=needed)
        for memory, needed in least.items()
        if needed > config.depth(memory)
    )


def shortage_text(need: NeedsMore, config: AccelConfig) -> str:
    """Return one sentence: memory, bytes needed, bytes present, the smallest depth that works."""
    tile = config.tile_bits(need.memory)
    name = need.memory.name.lower()
    smallest = 1 << (need.needed - 1).bit_length()
    return (
        f"its least tile needs {-(-need.needed * tile // 8)} bytes of {name}, "
        f"which has {config.memory_bytes(need.memory)}; "
        f"the smallest that works is {name}_depth = {smallest}"
    )


def refuse(layer: Layer, needs: tuple[NeedsMore, ...], config: AccelConfig) -> CodesignError:
    """Return the error for a layer that does not fit: layer, memory, bytes needed and present."""
    return CodesignError(
        *(
            Problem(
                what=f"layer {layer.name!r} ({layer.operator}) does not fit the accelerator",
                found=shortage_text(need, config),
                help="enlarge the memory, or leave the layer on the host",
            )
            for need in needs
        )
    )


def gemm_params(layer: GemmLayer, oc: Tiles) -> Tiles:
    """Return the param tiles of `oc` channel tiles: scaling, residual's, pool's."""
    pooled = layer.pool is not None and layer.pool.total is not None
    return oc * (1 + pooled) + (layer.residual is not None)


def param_tiles(layer: WindowLayer) -> int:
    """Return the param tiles of one channel tile: four weights to a tile, then the scaling."""
    weights = 0 if layer.weights is None else -(-math.prod(layer.window.kernel) // 4)
    return weights + (layer.scaling is not None)
