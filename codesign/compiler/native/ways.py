"""Where the ways of a branch meet again: one value, and what only some of them have evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from codesign.compiler.native.blocks import OpenBlock, Writer
from codesign.compiler.native.known import Known
from codesign.ir.control.program import Jump, Null, Value
from codesign.ir.relay.expr import Expr
from codesign.ir.relay.types import Type


@final
@dataclass(slots=True)
class Way:
    """One way through a branch: where it ends, its value, and what it evaluated on the way."""

    end: OpenBlock
    value: Value
    gained: dict[Expr, Value]


def join(
    writer: Writer,
    known: Known,
    ways: Sequence[Way],
    type_: Type | None,
    types: Mapping[Expr, Type],
) -> Value:
    """Let ways go on at one block; what only some of them evaluated may be null there."""
    result = writer.value("v", type_)
    shared: dict[Expr, Value] = {}
    for node in dict.fromkeys(node for way in ways for node in way.gained):
        found = [way.gained.get(node, known.value(node)) for way in ways]
        is_maybe = any(each is None or each.is_maybe for each in found)
        shared[node] = writer.value("s", types.get(node), is_maybe=is_maybe)
    block = writer.open((result, *shared.values()))
    for way in ways:
        writer.current = way.end
        args = [way.value]
        for node in shared:
            value = way.gained.get(node, known.value(node))
            if value is None:
                value = writer.value("none", is_maybe=True)
                writer.add(Null(value))
            args.append(value)
        writer.finish(Jump(block.label, tuple(args)))
    writer.current = block
    for node, value in shared.items():
        known.remember(node, value)
    return result
