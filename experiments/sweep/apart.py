"""A network whose sums and tables are layers of their own: to measure what fusing them saves.

    fn (%x) { qnn.add(qnn.requantize(qnn.conv2d(%x, w), …), %x) }
becomes
    fn (%x) { let %y = qnn.requantize(qnn.conv2d(%x, w), …); (qnn.add(%y, %x), %y) }

A layer takes along what alone reads its result. What is a result of the network is read by the host
too, and lies in memory either way: the layer behind reads it there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from codesign.ir.relay.expr import Call, Expr, OpRef, Tuple
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order

_READERS: Final = frozenset({"qnn.add", "qnn.lookup"})
_MAKERS: Final = frozenset({"qnn.requantize", "qnn.add", "qnn.multiply", "nn.max_pool2d"})


def layers_apart(module: Module) -> Module:
    """Return the network with all that a sum or a table reads as results behind its own."""
    main = module.main
    own = main.body.fields if isinstance(main.body, Tuple) else (main.body,)
    read = dict.fromkeys(
        arg
        for call in post_order(main.body)
        if _name(call) in _READERS
        for arg in _operands(call)
        if _name(arg) in _MAKERS and arg not in own
    )
    return module.with_main(replace(main, body=Tuple((*own, *read))))


def _operands(call: Expr) -> tuple[Expr, ...]:
    return call.args if isinstance(call, Call) else ()


def _name(expr: Expr) -> str | None:
    match expr:
        case Call(callee=OpRef(name=name)):
            return name
        case _:
            return None
