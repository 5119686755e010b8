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
from codesign.compiler.backends.accel.fit import (
    gemm_params,
    param_tiles,
    refuse,
    shortage,
)
from codesign.compiler.backends.accel.layer import (
    GemmLayer,
    Layer,
    LookupLayer,
    MultiplyLayer,
    WindowLayer,
)
from codesign.compiler.backends.accel.operand_loads import Operand, loads
from codesign.compiler.backends.accel.pool import (
    each_sums,
    most_sums,
    passes_over_sums,
    passes_over_windows,
)
from codesign.dtypes import Array

Cycles: TypeAlias = NDArray[np.float64]

START_CYCLES: Final = 2
"""Cycles a unit spends on an instruction beyond its work."""

INSTRUCTION_CYCLES: Final = 8
"""What an instruction is worth: of two tilings that are about as fast the shorter program wins."""


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
            sums = most_sums(layer, (oh, ow))
            rows, columns = layer.window.extent(sums)
            return (
                (oc == 1 or not layer.is_grouped)
                and oc * ic * math.prod(layer.window.kernel) <= config.wgt_depth
                and (oc if layer.is_diagonal else ic) * rows * columns <= config.inp_depth
                and oc * math.prod(sums) <= config.acc_bank_depth
                and oc * oh * ow <= config.out_depth
                and gemm_params(layer, oc) <= config.param_depth
                and (layer.residual is None or oc * math.prod(sums) <= config.vec_depth)
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
    acc = config.acc_bank_depth
    if layer.residual is not None:
        acc = min(acc, config.vec_depth)
    most = config.out_depth if layer.pool is not None else min(acc, config.out_depth)
    most_oc = min(acc, config.out_depth, config.param_depth, config.wgt_depth // taps)
    oc, oh, ow, ic = (
        axis.ravel().astype(np.int64)
        for axis in np.meshgrid(
            [1] if layer.is_grouped else splits(oc_all, most_oc),
            splits(oh_all, most),
            splits(ow_all, most),
            splits(ic_all, min(config.inp_depth, config.wgt_depth // taps)),
            indexing="ij",
        )
    )
    (height, heights), (width, widths) = each_sums(layer, 0, oh), each_sums(layer, 1, ow)
    rows = (height - 1) * layer.window.strides[0] + layer.window.extent((1, 1))[0]
    columns = (width - 1) * layer.window.strides[1] + layer.window.extent((1, 1))[1]
    inp = (oc if layer.is_diagonal else ic) * rows * columns
    wgt, sums = oc * ic * taps, oc * height * width
    fits = (inp <= config.inp_depth) & (wgt <= config.wgt_depth) & (sums <= acc)
    fits &= (oc * oh * ow <= config.out_depth) & (gemm_params(layer, oc) <= config.param_depth)
    oc, oh, ow, ic, rows, columns, inp, wgt = (
        each[fits] for each in (oc, oh, ow, ic, rows, columns, inp, wgt)
    )
    height, width, sums, all_sums = (
        each[fits] for each in (height, width, sums, n * oc_all * heights * widths)
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
    gemm = all_sums * float(ic_all * taps) + tiles * counts_ic * START_CYCLES
    if layer.residual is not None:
        store_cycles = store_cycles + _box_cycles(config, Memory.VEC, oc, height, width)
    over, under = passes_over_sums(layer), passes_over_windows(layer)
    drain = (over + (under > 0)) * (vector_latency(config) + START_CYCLES)
    passes = over * all_sums + under * n * oc_all * oh_all * ow_all
    vector = passes * config.vector_passes + tiles * drain
    if config.acc_banks == 1:
        gemm = gemm + vector
    step = (sums * ic * taps).astype(np.float64)
    if not oc.size:
        raise refuse(layer, shortage(layer, config), config)
    ragged = n * (oh_all / oh) * (ow_all / ow), oc_all / oc, ic_all / ic
    found: list[Candidate] = []
    for weights_outer in (False, True):
        weights = Operand(counts_oc, ragged[1], wgt, wgt_cycles, config.wgt_depth)
        inputs = Operand(places, ragged[0], inp, inp_cycles, config.inp_depth)
        outer, inner = (weights, inputs) if weights_outer else (inputs, weights)
        load, wait, first_load, times = loads(outer, inner, counts_ic, ragged[2], step)
        stores = ragged[0] * ragged[1] * store_cycles
        serial = wait + (2 * oc * oh * ow > config.out_depth) * stores
        memory = load + stores + fetch_cycles
        turn = 1 / outer.groups
        first = np.maximum(gemm * turn, first_load + (stores + fetch_cycles) * turn)
        rest = np.maximum(gemm * (1 - turn), memory - first_load - (stores + fetch_cycles) * turn)
        ends = inp_cycles + wgt_cycles + store_cycles
        ends = ends + (over * sums + under * oc * oh * ow) * config.vector_passes
        least = np.maximum(np.maximum(gemm, vector), memory)
        cost = np.maximum(first + rest + serial, np.maximum(vector, memory)) + ends
        cost = cost + INSTRUCTION_CYCLES * (times + tiles * (counts_ic + 2))
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
