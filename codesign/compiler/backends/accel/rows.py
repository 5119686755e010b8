"""Layers without planes, as recurrent networks have them, and tilings that stream their weights."""

from __future__ import annotations

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.layer import GemmLayer, Layer, WindowLayer
from codesign.compiler.backends.accel.tile import GemmTiling, is_legal, splits


def is_of_rows(layer: Layer) -> bool:
    """Whether a layer has no plane: a product of matrices, or what follows one by elements."""
    match layer:
        case WindowLayer():
            return False
        case GemmLayer(pool=pool) if pool is not None:
            return False
        case _:
            return layer.result.tiles[3] == 1


def long_loads(layer: Layer, config: AccelConfig, count: int) -> tuple[GemmTiling, ...]:
    """Return the `count` tilings of a product of matrices with the longest loads of weights.

    Two loads fit the memory side by side.
    """
    if not isinstance(layer, GemmLayer):
        return ()
    _, oc_all, oh, ow = layer.result.tiles
    found = [
        GemmTiling(oc=oc, oh=oh, ow=ow, ic=ic, weights_outer=False)
        for oc in splits(oc_all, oc_all)
        for ic in splits(layer.weights.shape[1], layer.weights.shape[1])
        if 2 * oc * ic <= config.wgt_depth
    ]
    legal = [each for each in found if is_legal(layer, each, config)]
    return tuple(sorted(legal, key=lambda each: (-each.oc * each.ic, -each.ic))[:count])
