"""Tile sizes: every tiling that fits, in the order of estimated cycles.

Every candidate is costed at once: the array, the vector unit and the memory work side by side, so a
layer takes what the busiest of them takes, and beyond it the first tile's load and the last tile's
epilogue, which nothing overlaps. A memory that holds one tile only makes its loads wait in line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.encoding import instruction_beats
from codesign.accel.timing import vector_latency
from codesign.compiler.backends.accel.fit import param_tiles, refuse, shortage
from codesign.compiler.backends.accel.layer import (
    GemmLayer,
    Layer,
    LookupLayer,
    MultiplyLayer,
    WindowLayer,
)
from codesign.dtypes import Array

Cycles: TypeAlias = NDArray[np.float64]

START_CYCLES: Final = 2
"""Cycles a unit spends on an instruction beyond its work."""

INSTRUCTION_CYCLES: Final = 8
"""What an instruction is worth: of two tilings that are about as fast the shorter program wins."""


RESIDUAL_PASSES: Final = 4
"""Passes over the accumulators of a layer with a residual: scale, two limits, add."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GemmTiling:
    """Tiles of a gemm layer: out channels, rows, columns, in channels.

    `weights_outer`: weights stay while all rows and columns pass; else inputs stay while all out
    channels pass.
    """

    oc: int
    oh: int
    ow: int
    ic: int
    weights_outer: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FlatTiling:
    """Tiles of one step of an elementwise layer."""

    step: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTiling:
    """Tiles of a window layer: channels, rows, columns; how many of all tiles the array takes."""

    c: int
    oh: int
    ow: int
    on_array: int = 0


Tiling: TypeAlias = GemmTiling | WindowTiling | FlatTiling


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """A tiling, and how many tiles of the memories it makes use of: of all, where there is none."""

    tiling: Tiling
    within: AccelConfig | None = None


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """A tiling with its estimated cycles, and those that no order of its work goes below."""

    tiling: Tiling
    estimate: float
    least: float


def candidates(layer: Layer, config: AccelConfig, count: int) -> tuple[Candidate, ...]:
    """Return the `count` tilings of least estimated cycles, the least first; the layer fits."""
    match layer:
        case GemmLayer():
            return _gemm_candidates(layer, config, count)
        case WindowLayer():
            return _window_candidates(layer, config, count)
        case _:
            return _flat_candidates(layer, config, count)


def is_legal(layer: Layer, tiling: Tiling, config: AccelConfig) -> bool:
    """Whether a tiling is one of such a layer, and fits the memories of a configuration."""
    match layer, tiling:
        case GemmLayer(), GemmTiling(oc=oc, oh=oh, ow=ow, ic=ic):
            rows, columns = layer.window.extent((oh, ow))
            extra = layer.residual is not None
            return (
                (oc == 1 or not layer.is_grouped)
                and oc * ic * math.prod(layer.window.kernel) <= config.wgt_depth
                and (oc if layer.is_diagonal else ic) * rows * columns <= config.inp_depth
                and oc * oh * ow <= min(config.acc_bank_depth, config.out_depth)
                and oc + extra <= config.param_depth
                and (oc * oh * ow <= config.vec_depth or not extra)
            )
        case WindowLayer(), WindowTiling(c=c, oh=oh, ow=ow, on_array=on_array):
            rows, columns = layer.window.extent((oh, ow))
            size, taps = c * rows * columns, math.prod(layer.window.kernel)
            shared = (
                c * taps <= config.wgt_depth
                and size <= config.inp_depth
                and c * oh * ow <= config.acc_bank_depth
            )
            fits = size <= config.vec_depth and c * param_tiles(layer) <= config.param_depth
            return fits and c * oh * ow <= config.out_depth and (shared or not on_array)
        case _, FlatTiling(step=step):
            return step <= _most_flat(layer, config)
        case _:
            return False


def splits(extent: int, most: int) -> list[int]:
    """Return the tile sizes up to `most` that cut `extent` into different numbers of tiles."""
    sizes = {-(-extent // parts) for parts in range(1, extent + 1)}
    return sorted(size for size in sizes if size <= most)


def _gemm_candidates(layer: GemmLayer, config: AccelConfig, count: int) -> tuple[Candidate, ...]:
    n, oc_all, oh_all, ow_all = layer.result.tiles
    ic_all = layer.weights.shape[1]
    taps = math.prod(layer.window.kernel)
    acc = min(config.acc_bank_depth, config.out_depth)
    passes, params = config.vector_passes, config.param_depth
    if layer.residual is not None:
        acc = min(acc, config.vec_depth)
        passes, params = RESIDUAL_PASSES * passes, params - 1
    oc, oh, ow, ic = (
        axis.ravel().astype(np.int64)
        for axis in np.meshgrid(
            [1] if layer.is_grouped else splits(oc_all, min(acc, params, config.wgt_depth // taps)),
            splits(oh_all, acc),
            splits(ow_all, acc),
            splits(ic_all, min(config.inp_depth, config.wgt_depth // taps)),
            indexing="ij",
        )
    )
    rows = (oh - 1) * layer.window.strides[0] + layer.window.extent((1, 1))[0]
    columns = (ow - 1) * layer.window.strides[1] + layer.window.extent((1, 1))[1]
    inp = (oc if layer.is_diagonal else ic) * rows * columns
    wgt = oc * ic * taps
    fits = (inp <= config.inp_depth) & (wgt <= config.wgt_depth) & (oc * oh * ow <= acc)
    oc, oh, ow, ic, rows, columns, inp, wgt = (
        each[fits] for each in (oc, oh, ow, ic, rows, columns, inp, wgt)
    )
    counts_oc, counts_ic = -(-oc_all // oc), -(-ic_all // ic)
    places = n * -(-oh_all // oh) * -(-ow_all // ow)
    tiles = counts_oc * places
    interval = config.beat_interval
    wgt_cycles = wgt * config.beats(Memory.WGT) * interval
    inp_cycles = _box_cycles(config, Memory.INP, ic, rows, columns)
    if layer.result.column_step > 1:
        store_cycles = _box_cycles(config, Memory.OUT, oc * oh, ow, np.ones_like(ow))
    else:
        store_cycles = _box_cycles(config, Memory.OUT, oc, oh, ow)
    fetch_cycles = tiles * (3.0 * counts_ic + 3) * instruction_beats(config) * interval
    gemm = float(n * oc_all * oh_all * ow_all * ic_all * taps) + tiles * counts_ic * START_CYCLES
    drain = vector_latency(config) + START_CYCLES
    if layer.residual is not None:
        drain = drain * RESIDUAL_PASSES
        store_cycles = store_cycles + _box_cycles(config, Memory.VEC, oc, oh, ow)
    vector = n * oc_all * oh_all * ow_all * passes + tiles * drain
    if config.acc_banks == 1:
        gemm = gemm + vector
    step = (oc * oh * ow * ic * taps).astype(np.float64)
    if not oc.size:
        raise refuse(layer, shortage(layer, config), config)
    ragged = n * (oh_all / oh) * (ow_all / ow), oc_all / oc, ic_all / ic
    found: list[Candidate] = []
    for weights_outer in (False, True):
        weights = _Operand(counts_oc, ragged[1], wgt, wgt_cycles, config.wgt_depth)
        inputs = _Operand(places, ragged[0], inp, inp_cycles, config.inp_depth)
        outer, inner = (weights, inputs) if weights_outer else (inputs, weights)
        load, wait, first_load, loads = _loads(outer, inner, counts_ic, ragged[2], step)
        stores = ragged[0] * ragged[1] * store_cycles
        serial = wait + (2 * oc * oh * ow > config.out_depth) * stores
        memory = load + stores + fetch_cycles
        turn = 1 / outer.groups
        first = np.maximum(gemm * turn, first_load + (stores + fetch_cycles) * turn)
        rest = np.maximum(gemm * (1 - turn), memory - first_load - (stores + fetch_cycles) * turn)
        ends = inp_cycles + wgt_cycles + oc * oh * ow * passes + store_cycles
        least = np.maximum(np.maximum(gemm, vector), memory)
        cost = np.maximum(first + rest + serial, np.maximum(vector, memory)) + ends
        cost = cost + INSTRUCTION_CYCLES * (loads + tiles * (counts_ic + 2))
        if weights_outer:
            cost = np.where((counts_oc == 1) | (places == 1), np.inf, cost)
        for index in _first(cost, count):
            tiling = GemmTiling(
                oc=int(oc[index]),
                oh=int(oh[index]),
                ow=int(ow[index]),
                ic=int(ic[index]),
                weights_outer=weights_outer,
            )
            if np.isfinite(cost[index]):
                found.append(Candidate(tiling, float(cost[index]), float(least[index])))
    return tuple(sorted(found, key=lambda each: each.estimate)[:count])


def _first(cost: Cycles, count: int) -> Array:
    """Return the indices of the `count` least costs, the least first."""
    order: Array = np.argsort(cost, kind="stable")[:count]
    return order


@final
@dataclass(frozen=True, slots=True)
class _Operand:
    """One of the two operands of the array under every candidate.

    `groups` along the operand's own axes, `ragged` the same with the last one's true share; tiles
    of a step, cycles of its load, depth of its memory.
    """

    groups: Array
    ragged: Array
    size: Array
    cycles: Array
    depth: int


def _loads(
    outer: _Operand, inner: _Operand, parts: Array, ragged_parts: Array, step: Array
) -> tuple[Array, Array, Array, Array]:
    """Return cycles of all loads, cycles that the array waits, cycles of the first turn, loads.

    `outer` stays while `inner` passes by: all parts of its group, if they fit; the next group's
    come meanwhile, but loads run ahead of the array only by what fits the inner's memory, and not
    at all where two groups do not fit side by side. What of `inner` fits as a whole is loaded in
    the first turn alone.
    """
    kept = parts * outer.size <= outer.depth
    resident = inner.groups * parts * inner.size <= inner.depth
    outer_once = outer.cycles * ragged_parts * np.where(kept, 1.0, inner.groups)
    inner_once = inner.cycles * ragged_parts * inner.ragged
    turns = np.where(resident, 1.0, outer.ragged)
    load = outer.ragged * outer_once + turns * inner_once
    ahead = np.minimum(inner.depth // inner.size, inner.groups * parts) * step
    beside = 2 * parts * outer.size <= outer.depth
    alone = np.maximum(outer.cycles - step * (parts > 1), 0) * parts
    late = np.where(beside, np.maximum(parts * outer.cycles - ahead, 0), alone)
    streamed = (2 * outer.size > outer.depth) * outer.cycles * parts * inner.groups
    wait = np.where(kept, (outer.groups - 1) * late, outer.groups * streamed)
    serial = ~resident & (2 * inner.size > inner.depth)
    wait = wait + serial * outer.groups * inner.groups * parts * inner.cycles
    count = parts * (outer.groups * np.where(kept, 1, inner.groups) + inner.groups * turns)
    return load, wait, outer_once + inner_once, count


def _window_candidates(
    layer: WindowLayer, config: AccelConfig, count: int
) -> tuple[Candidate, ...]:
    n, c_all, oh_all, ow_all = layer.result.tiles
    params, taps = param_tiles(layer), math.prod(layer.window.kernel)
    most_c = config.param_depth // params if params else config.out_depth
    c, oh, ow, share = (
        axis.ravel()
        for axis in np.meshgrid(
            splits(c_all, min(most_c, config.out_depth)),
            splits(oh_all, config.out_depth),
            splits(ow_all, config.out_depth),
            _shares(layer, config),
            indexing="ij",
        )
    )
    rows = (oh - 1) * layer.window.strides[0] + layer.window.extent((1, 1))[0]
    columns = (ow - 1) * layer.window.strides[1] + layer.window.extent((1, 1))[1]
    size, result = c * rows * columns, c * oh * ow
    fits = (size <= config.vec_depth) & (result <= config.out_depth)
    on_array = (size <= config.inp_depth) & (result <= config.acc_bank_depth)
    on_array &= c * taps <= config.wgt_depth
    fits &= on_array | (share == 0)
    c, oh, ow, share, rows, columns = (each[fits] for each in (c, oh, ow, share, rows, columns))
    size, result = size[fits], result[fits]
    groups = -(-c_all // c)
    tiles = n * groups * -(-oh_all // oh) * -(-ow_all // ow)
    given = np.rint(tiles * share)
    share = given / tiles
    work = n * c_all * oh_all * ow_all * taps
    passes = config.vector_passes
    vector = work * (1 - share) * passes + work * share * passes / taps
    vector = vector + tiles * (vector_latency(config) + START_CYCLES)
    gemm = work * share + given * (START_CYCLES + (config.acc_banks == 1) * result * passes)
    load_cycles = _box_cycles(config, Memory.VEC, c, rows, columns)
    store_cycles = _box_cycles(config, Memory.OUT, c, oh, ow)
    param_cycles = c * params * config.beats(Memory.PARAM) * config.beat_interval
    weight_cycles = c * taps * config.beats(Memory.WGT) * config.beat_interval * (share > 0)
    fetch_cycles = tiles * 4 * instruction_beats(config) * config.beat_interval
    memory = tiles * (load_cycles + store_cycles) + fetch_cycles
    memory = memory + groups * (param_cycles + weight_cycles)
    serial = (2 * size > config.vec_depth) * tiles * load_cycles
    serial = serial + (2 * result > config.out_depth) * tiles * store_cycles
    cost = np.maximum(np.maximum(vector, gemm) + serial * (tiles > 1), memory)
    cost = cost + load_cycles + param_cycles + store_cycles + weight_cycles
    cost = cost + result * taps * (share > 0)
    cost = cost + INSTRUCTION_CYCLES * (3 * tiles + given)
    least = np.maximum(np.maximum(vector, gemm), memory)
    return tuple(
        Candidate(
            WindowTiling(
                c=int(c[index]),
                oh=int(oh[index]),
                ow=int(ow[index]),
                on_array=int(given[index]),
            ),
            float(cost[index]),
            float(least[index]),
        )
        for index in _first(cost, count)
    )


def _shares(layer: WindowLayer, config: AccelConfig) -> list[float]:
    """Return the shares of a layer's tiles that the array may take: where both end together."""
    if layer.array is None:
        return [0.0]
    taps, passes = math.prod(layer.window.kernel), config.vector_passes
    balanced = taps * passes / (taps + taps * passes - passes)
    return [0.0, balanced / 2, balanced, 1.0]


def _flat_candidates(layer: Layer, config: AccelConfig, count: int) -> tuple[Candidate, ...]:
    operands, tiles = _flat_operands(layer), layer.result.count
    found = [
        _flat_candidate(step, tiles, operands, config)
        for step in splits(tiles, _most_flat(layer, config))
    ]
    return tuple(sorted(found, key=lambda each: each.estimate)[:count])


def _flat_operands(layer: Layer) -> int:
    return 1 if isinstance(layer, LookupLayer) else 2


def _most_flat(layer: Layer, config: AccelConfig) -> int:
    most = min(config.vec_depth // _flat_operands(layer), config.out_depth)
    return min(most, config.acc_bank_depth) if isinstance(layer, MultiplyLayer) else most


def _flat_candidate(step: int, tiles: int, operands: int, config: AccelConfig) -> Candidate:
    steps = -(-tiles // step)
    beats = config.beats(Memory.OUT) * config.beat_interval
    fetch = steps * (operands + 2) * instruction_beats(config) * config.beat_interval
    memory = tiles * (operands + 1) * beats + fetch
    vector = tiles * operands * config.vector_passes
    vector += steps * (vector_latency(config) + START_CYCLES)
    alone = 2 * step * operands > config.vec_depth or 2 * step > config.out_depth
    busy = memory + vector if alone else max(memory, vector)
    ends = step * (config.vector_passes * operands + beats * (operands + 1))
    cost = busy + ends + INSTRUCTION_CYCLES * steps * (operands + 2)
    return Candidate(FlatTiling(step=step), float(cost), float(max(memory, vector)))


def _box_cycles(
    config: AccelConfig,
    memory: Memory,
    z: NDArray[np.int64],
    y: NDArray[np.int64],
    x: NDArray[np.int64],
) -> Cycles:
    """Return the channel's cycles for a box whose rows are bursts of their own."""
    beats = x * config.beats(memory)
    bursts = -(-beats // config.burst_beats)
    latency_share = (config.dram.latency_cycles + START_CYCLES) / config.outstanding
    row = np.maximum(beats * config.beat_interval, bursts * max(2.0, latency_share))
    cycles: Cycles = z * y * row
    return cycles
