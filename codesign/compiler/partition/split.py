"""split: a placed graph to steps, each a closed function for one side.

Steps alternate: a node belongs to the step after all that it reads from the other side. Nodes of
one side and level make one function, so that values cross as seldom as this order allows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from codesign.compiler.backends.accel.match import Composite
from codesign.compiler.partition.assign import Assignment
from codesign.compiler.partition.graph import graph_order, replaced, sources
from codesign.ir.relay.expr import Call, Constant, Expr, Function, Project, Tuple, Var
from codesign.ir.relay.types import Type

Side: TypeAlias = Literal["cpu", "accel", "gpu"]
Key: TypeAlias = tuple[int, Side]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One step: a closed function, the nodes that are its arguments, the nodes that it gives."""

    name: str
    side: Side
    function: Function
    inputs: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    calls: tuple[Expr, ...]


def split(
    results: tuple[Expr, ...],
    types: Mapping[Expr, Type],
    assignment: Assignment,
    *,
    one_layer: bool,
    device: Side = "accel",
) -> tuple[Part, ...]:
    """Return the steps that compute `results`, in order; composites run on the `device`.

    `one_layer`: no layer of the accelerator reads another's result in the same step, so that the
    host can lay out every operand anew; so it is around products of two tensors in any case.
    """
    order = tuple(graph_order(*results))
    keys = _keys(order, assignment, device, one_layer=one_layer)
    needed = _needed(order, keys, results)
    members: dict[Key, list[Expr]] = defaultdict(list)
    for node, key in keys.items():
        members[key].append(node)
    parts = []
    for index, key in enumerate(sorted(members)):
        outputs = tuple(node for node in members[key] if node in needed)
        parts.append(_part(f"{index}-{key[1]}", key, outputs, members[key], keys, types))
    return tuple(part for part in parts if part.outputs)


def _keys(
    order: tuple[Expr, ...], assignment: Assignment, device: Side, *, one_layer: bool
) -> dict[Expr, Key]:
    keys: dict[Expr, Key] = {}
    for node in order:
        if not isinstance(node, Call | Project):
            continue
        composite = assignment.composites.get(node)
        side: Side = "cpu" if composite is None else device
        if isinstance(node, Project) and node.value in keys:
            side = keys[node.value][1]
        inner = set(composite.calls) if composite is not None else set()
        level = 0
        for source in sources(node):
            if source not in keys:
                continue
            its_level, its_side = keys[source]
            own = source in inner or _is_gathered(source, assignment)
            alone = one_layer or any(map(_is_alone, (composite, assignment.composites.get(source))))
            apart = its_side != side or (alone and side == "accel" and not own)
            level = max(level, its_level + apart)
        keys[node] = (level, side)
        for call in inner & keys.keys():
            keys[call] = (max(level, keys[call][0]), side)
    return keys


def _is_alone(composite: Composite | None) -> bool:
    return composite is not None and composite.is_alone


def _is_gathered(node: Expr, assignment: Assignment) -> bool:
    """Whether a node is a concatenation whose parts its readers take from where they lie."""
    composite = assignment.composites.get(node)
    return composite is not None and composite.gathers and composite.main is node


def _needed(
    order: tuple[Expr, ...], keys: Mapping[Expr, Key], results: tuple[Expr, ...]
) -> set[Expr]:
    needed = {result for result in results if result in keys}
    for node in order:
        if node not in keys:
            continue
        needed.update(
            source for source in sources(node) if source in keys and keys[source] != keys[node]
        )
    return needed


def _part(
    name: str,
    key: Key,
    outputs: tuple[Expr, ...],
    members: list[Expr],
    keys: Mapping[Expr, Key],
    types: Mapping[Expr, Type],
) -> Part:
    inputs: list[Expr] = []
    values: dict[Expr, Expr] = {}
    for node in members:
        for source in sources(node):
            outside = isinstance(source, Var) or (source in keys and keys[source] != key)
            if outside and source not in values and not isinstance(source, Constant):
                label = source.name if isinstance(source, Var) else f"value{len(inputs)}"
                values[source] = Var(label, types[source])
                inputs.append(source)
    bodies = tuple(replaced(output, values) for output in outputs)
    params = tuple(values[each] for each in inputs)
    function = Function(
        params=tuple(param for param in params if isinstance(param, Var)),
        body=bodies[0] if len(bodies) == 1 else Tuple(bodies),
    )
    return Part(
        name=name,
        side=key[1],
        function=function,
        inputs=tuple(inputs),
        outputs=outputs,
        calls=tuple(members),
    )
