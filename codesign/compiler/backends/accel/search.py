"""Which tiling each layer gets: by the cycles of a clock, where there is one.

The best tilings by estimate are written as programs and timed, alone first, then the fastest of
them behind the layer before, whose end a layer's first loads overlap. Layers of one shape are
searched once. Without a clock the estimate decides.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias, final

from codesign.accel.config import AccelConfig
from codesign.accel.program import Program
from codesign.compiler.backends.accel.builder import Builder
from codesign.compiler.backends.accel.interleave import interleaved
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
from codesign.compiler.backends.accel.node import Node
from codesign.compiler.backends.accel.rows import is_of_rows, long_loads
from codesign.compiler.backends.accel.synchronize import synchronize
from codesign.compiler.backends.accel.tile import Choice, candidates, is_legal

Clock: TypeAlias = Callable[[Program, AccelConfig], int]
"""Returns the cycles of a program on a configuration: a simulator, or hardware."""

ALONE: Final = 8
"""Tilings that are timed alone, the best by estimate."""

BEHIND: Final = 3
"""Tilings that are timed behind the layer before, the best of those."""

NEARLY: Final = 1.002
"""What a tiling must be able to save to be timed: the array's bound is reached early, and often."""

TOGETHER: Final = 24
"""Layers without planes, of steps of a recurrent network, that are timed together at most; what
is best for them is best for those that follow."""

TRIED: Final = 5
"""Tilings of each of them that are tried."""

_SEGMENT_BYTES: Final = 1 << 30
_Step: TypeAlias = tuple[Layer, Choice]


@final
@dataclass(slots=True)
class Tuning:
    """What chooses tilings: a clock, and what it found best so far, by the shape of the layer.

    One object may serve many compilations: what was best on another configuration is tried again,
    so that more memory or bandwidth does not make a network slower than it has been.
    """

    clock: Clock
    winners: dict[Hashable, list[Choice]] = field(default_factory=dict)


@final
@dataclass(slots=True)
class Search:
    """Chooses tilings for one configuration; remembers what it has timed."""

    config: AccelConfig
    tuning: Tuning | None
    timed: dict[Hashable, int] = field(default_factory=dict)

    def choose(self, layers: Sequence[Layer]) -> tuple[Choice, ...]:
        """Return a tiling for each layer of a program, in order."""
        chosen: list[Choice] = []
        for index, layer in enumerate(layers):
            before = [(layers[index - 1], chosen[-1])] if index else []
            chosen.append(self._best(before, layer))
        if self.tuning is None or not all(map(is_of_rows, layers)):
            return tuple(chosen)
        first = chosen[:TOGETHER]
        self._refine(layers[:TOGETHER], first)
        known = {_shape(layer): choice for layer, choice in zip(layers, first, strict=False)}
        rest = zip(layers[TOGETHER:], chosen[TOGETHER:], strict=True)
        return (*first, *(known.get(_shape(layer), choice) for layer, choice in rest))

    def cost(self, layers: Sequence[Layer]) -> float:
        """Return the cycles of layers in order, tiled as chosen; without a clock estimated."""
        if self.tuning is None:
            return sum(candidates(layer, self.config, 1)[0].estimate for layer in layers)
        return self._cycles(list(zip(layers, self.choose(layers), strict=True)))

    def _refine(self, layers: Sequence[Layer], chosen: list[Choice]) -> None:
        """Choose anew by the cycles of all layers together, for products of one shape alike.

        What a layer does alone at its beginning and at its end, the others overlap here: fewer and
        longer loads are better, but for the last product, for which all others have to wait.
        """
        alike: dict[Hashable, list[int]] = {}
        for index, layer in enumerate(layers):
            if isinstance(layer, GemmLayer):
                alike.setdefault(_shape(layer), []).append(index)
        last = [group[-1:] for group in alike.values()][-1:]
        least = self._together(layers, chosen)
        for group in (*alike.values(), *last):
            for tiling in long_loads(layers[group[0]], self.config, TRIED):
                trial = list(chosen)
                for index in group:
                    trial[index] = Choice(tiling)
                cycles = self._together(layers, trial)
                if cycles < least:
                    least, chosen[:] = cycles, trial

    def _together(self, layers: Sequence[Layer], chosen: Sequence[Choice]) -> int:
        assert self.tuning is not None, "only a clock times programs"
        nodes = _nodes(list(zip(layers, chosen, strict=True)), self.config)
        order = interleaved(nodes, self.config)
        return cycles_of([nodes[index] for index in order], self.config, self.tuning)

    def _best(self, before: list[_Step], layer: Layer) -> Choice:
        if self.tuning is None:
            return Choice(candidates(layer, self.config, 1)[0].tiling)
        alone = self._fastest(layer)
        best = alone[0]
        if before:
            best = min(alone, key=lambda choice: self._cycles([*before, (layer, choice)]))
        winners = self._winners(layer)
        made = [Choice(each.tiling, each.within or self.config) for each in (alone[0], best)]
        winners += [each for each in dict.fromkeys(made) if each not in winners]
        return best

    def _fastest(self, layer: Layer) -> list[Choice]:
        found: list[tuple[int, int, Choice]] = []
        for rank, (choice, least) in enumerate(self._worth_timing(layer)):
            if not _is_hopeless(least, found):
                found.append((self._cycles([(layer, choice)]), rank, choice))
        return [choice for _, _, choice in sorted(found, key=lambda each: each[:2])[:BEHIND]]

    def _worth_timing(self, layer: Layer) -> list[tuple[Choice, float]]:
        """Return the best by estimate and what was best on other configurations; least cycles."""
        found = [
            (Choice(each.tiling), each.least) for each in candidates(layer, self.config, ALONE)
        ]
        return found + [
            (choice, 0.0)
            for choice in self._winners(layer)
            if choice.within != self.config and is_legal(layer, choice.tiling, self.config)
        ]

    def _winners(self, layer: Layer) -> list[Choice]:
        assert self.tuning is not None, "only a clock finds winners"
        return self.tuning.winners.setdefault(_shape(layer), [])

    def _cycles(self, steps: list[_Step]) -> int:
        key = tuple((_shape(layer), choice) for layer, choice in steps), _links(steps)
        if key not in self.timed:
            assert self.tuning is not None, "only a clock times programs"
            self.timed[key] = cycles_of(_nodes(steps, self.config), self.config, self.tuning)
        return self.timed[key]


def cycles_of(nodes: Sequence[Node], config: AccelConfig, tuning: Tuning) -> int:
    """Return the cycles of nodes in their order, each token where it is needed."""
    program = Program(
        instructions=synchronize(nodes),
        digest=config.digest,
        segments=(_SEGMENT_BYTES, _SEGMENT_BYTES),
    )
    return tuning.clock(program, config)


def _is_hopeless(least: float, found: list[tuple[int, int, Choice]]) -> bool:
    """Whether as many as are wanted have been as fast as this one can be, or nearly."""
    if len(found) < BEHIND:
        return False
    return sorted(each[0] for each in found)[BEHIND - 1] <= NEARLY * least


def _nodes(steps: Sequence[_Step], config: AccelConfig) -> list[Node]:
    builder = Builder(config, has_values=False)
    for layer, choice in steps:
        emit_layer(builder, layer, choice)
    return builder.nodes


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
        case GemmLayer():
            return layer.source, *layer.more
        case WindowLayer() | LookupLayer():
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
            pooled = None
            if layer.pool is not None:
                pooled = layer.pool.window, layer.pool.size, layer.pool.total is not None
            return *common, layer.window, layer.weights.shape, layer.first_input, pooled
        case WindowLayer():
            weighted = layer.weights is not None, layer.scaling is not None
            return *common, layer.window, weighted, layer.array is not None
        case _:
            return common
