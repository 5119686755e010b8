"""Which tiling each layer gets: by the cycles of a clock, where there is one.

The best tilings by estimate are written as programs and timed, alone first, then the fastest of
them behind the layer before, whose end a layer's first loads overlap. Layers of one shape are
searched once. Without a clock the estimate decides.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias, final

from codesign.accel.config import AccelConfig, Memory
from codesign.accel.program import Program
from codesign.compiler.backends.accel.builder import Builder
from codesign.compiler.backends.accel.fit import shortage
from codesign.compiler.backends.accel.layer import (
    AddLayer,
    GemmLayer,
    Layer,
    LookupLayer,
    MultiplyLayer,
    TileTensor,
    WindowLayer,
)
from codesign.compiler.backends.accel.layer_to_nodes import emit_layer
from codesign.compiler.backends.accel.synchronize import synchronize
from codesign.compiler.backends.accel.tile import Candidate, Tiling, candidates

Clock: TypeAlias = Callable[[Program, AccelConfig], int]
"""Returns the cycles of a program on a configuration: a simulator, or hardware."""

ALONE: Final = 8
"""Tilings that are timed alone, the best by estimate."""

LESS: Final = 8
"""Tilings that are timed besides for each memory, the best if it had half its depth."""

BEHIND: Final = 3
"""Tilings that are timed behind the layer before, the best of those."""

_SEGMENT_BYTES: Final = 1 << 30
_Step: TypeAlias = tuple[Layer, Tiling]


@final
@dataclass(slots=True)
class Search:
    """Chooses tilings for one configuration; remembers what it has timed."""

    config: AccelConfig
    clock: Clock | None
    timed: dict[Hashable, int] = field(default_factory=dict)

    def choose(self, layers: Sequence[Layer]) -> tuple[Tiling, ...]:
        """Return a tiling for each layer of a program, in order."""
        chosen: list[Tiling] = []
        for index, layer in enumerate(layers):
            before = [(layers[index - 1], chosen[-1])] if index else []
            chosen.append(self._best(before, layer))
        return tuple(chosen)

    def _best(self, before: list[_Step], layer: Layer) -> Tiling:
        if self.clock is None:
            return candidates(layer, self.config, 1)[0].tiling
        alone = self._fastest(layer)
        if not before:
            return alone[0]
        return min(alone, key=lambda tiling: self._cycles([*before, (layer, tiling)]))

    def _fastest(self, layer: Layer) -> list[Tiling]:
        found: list[tuple[int, int, Tiling]] = []
        for rank, candidate in enumerate(self._worth_timing(layer)):
            if not _is_hopeless(candidate, found):
                cycles = self._cycles([(layer, candidate.tiling)])
                found.append((cycles, rank, candidate.tiling))
        return [tiling for _, _, tiling in sorted(found, key=lambda each: each[:2])[:BEHIND]]

    def _worth_timing(self, layer: Layer) -> Iterator[Candidate]:
        """Yield the best tilings by estimate, and those that half of a memory would get.

        With the latter, more memory is not worse for an error of the estimate.
        """
        seen: set[Tiling] = set()
        for config, count in (
            (self.config, ALONE),
            *((less, LESS) for less in _halved(self.config)),
        ):
            if shortage(layer, config):
                continue
            for candidate in candidates(layer, config, count):
                if candidate.tiling not in seen:
                    seen.add(candidate.tiling)
                    yield candidate

    def _cycles(self, steps: list[_Step]) -> int:
        key = tuple((_shape(layer), tiling) for layer, tiling in steps), _links(steps)
        if key not in self.timed:
            assert self.clock is not None, "only a clock times programs"
            self.timed[key] = self.clock(_program(steps, self.config), self.config)
        return self.timed[key]


def _halved(config: AccelConfig) -> Iterator[AccelConfig]:
    """Yield the configuration with half of each memory that decides about tiles."""
    for memory in (Memory.INP, Memory.WGT, Memory.VEC, Memory.ACC, Memory.OUT, Memory.PARAM):
        half = config.depth(memory) // 2
        if half >= (2 * config.acc_banks if memory is Memory.ACC else 2):
            yield replace(config, **{f"{memory.name.lower()}_depth": half})


def _is_hopeless(candidate: Candidate, found: list[tuple[int, int, Tiling]]) -> bool:
    """Whether as many as are wanted have been faster than this one can be."""
    return len(found) >= BEHIND and sorted(found)[BEHIND - 1][0] <= candidate.least


def _program(steps: list[_Step], config: AccelConfig) -> Program:
    builder = Builder(config, has_values=False)
    for layer, tiling in steps:
        emit_layer(builder, layer, tiling)
    return Program(
        instructions=synchronize(builder.nodes),
        digest=config.digest,
        segments=(_SEGMENT_BYTES, _SEGMENT_BYTES),
    )


def _links(steps: list[_Step]) -> tuple[bool, ...]:
    """Return which operands of each layer the layer before has written."""
    return tuple(
        source.space == before.result.space
        for (before, _), (layer, _) in pairwise(steps)
        for source in _sources(layer)
    )


def _sources(layer: Layer) -> tuple[TileTensor, ...]:
    match layer:
        case GemmLayer(residual=residual) if residual is not None:
            return layer.source, residual.source
        case GemmLayer() | WindowLayer() | LookupLayer():
            return (layer.source,)
        case AddLayer() | MultiplyLayer():
            return layer.sources


def _shape(layer: Layer) -> Hashable:
    """Return all of a layer that its time depends on."""
    tensors = tuple(
        replace(each, name="", base=0, whole=None, first_channel=0)
        for each in (*_sources(layer), layer.result)
    )
    common = type(layer).__name__, tensors, layer.epilogue.table is not None
    match layer:
        case GemmLayer():
            return *common, layer.window, layer.weights.shape, layer.first_input
        case WindowLayer():
            weighted = layer.weights is not None, layer.scaling is not None
            return *common, layer.window, weighted, layer.array is not None
        case _:
            return common
