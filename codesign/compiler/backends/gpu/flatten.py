"""Stages over flat memory, with as few axes as say the same.

    target[n, c, y, x] = relu(a[n, c, y, x])    becomes    target[i] = relu(a[i])

Divisions that only find out where in a plane an element lies are so never made.
"""

from __future__ import annotations

from collections.abc import Mapping

from codesign.ir.tensor.compute import Expr, Load
from codesign.ir.tensor.index import Axis, Index, at
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer
from codesign.ir.tensor.substitute import Substitution
from codesign.ir.tensor.walk import indices, nodes


def flattened(stage: Stage, operands: tuple[Buffer, ...]) -> tuple[Stage, tuple[Buffer, ...]]:
    """Return an equal stage whose buffers have one dimension, and its operands in order."""
    flat = {buffer: Buffer(buffer.name, (buffer.elements,), buffer.storage) for buffer in operands}
    body = stage.body
    loads = [node for node in nodes(body) if isinstance(node, Load)]
    if any(load.buffer.storage is not load.dtype for load in loads):
        return stage, operands
    body = _over_flat(body, flat)
    address = stage.target.address(stage.index)
    single = Stage(flat[stage.target], (address,), stage.axes, body)
    return _merged(single), tuple(flat[buffer] for buffer in operands)


def _over_flat(body: Expr, flat: Mapping[Buffer, Buffer]) -> Expr:
    """Replace the loads, those that compute an index first."""
    while True:
        found = [node for node in nodes(body) if isinstance(node, Load) and node.buffer in flat]
        if not found:
            return body
        replaced: dict[Expr, Expr] = {
            load: Load(flat[load.buffer], (load.buffer.address(load.index),)) for load in found
        }
        body = Substitution({}, replaced).expr(body)


def _merged(stage: Stage) -> Stage:
    places = list(stage.index)
    for node in nodes(stage.body):
        places += indices(node)
    axes = [axis for axis in stage.axes if axis.extent != 1]
    chosen: dict[Axis, Index] = {axis: Index() for axis in stage.axes if axis.extent == 1}
    merged: list[Axis] = []
    while axes:
        group = [axes.pop(0)]
        while axes and all(_go_together(place, group[-1], axes[0]) for place in places):
            group.append(axes.pop(0))
        extent = 1
        for axis in group:
            extent *= axis.extent
        if len(group) == 1:
            merged.append(group[0])
            continue
        whole = Axis(group[0].name, extent)
        merged.append(whole)
        # Every place depends on the group by the position in it, so by the last axis alone.
        chosen.update(dict.fromkeys(group[:-1], Index()))
        chosen[group[-1]] = at(whole)
    if not chosen:
        return stage
    substitution = Substitution(chosen, {})
    return Stage(
        stage.target,
        tuple(map(substitution.index, stage.index)),
        tuple(merged),
        substitution.expr(stage.body),
    )


def _go_together(place: Index, outer: Axis, inner: Axis) -> bool:
    """Whether a step on the outer axis is as far as a walk over the whole inner one."""
    far, near = place.factor(outer), place.factor(inner)
    return far is not None and near is not None and far == near * inner.extent
