"""remove-standalone-reshapes: reshape once around operators that do not ask for the shape.

    reshape(nn.relu(exp(reshape(%x, shape=[6]))), shape=[3, 2])
becomes
    nn.relu(exp(reshape(%x, shape=[3, 2])))
and nothing of it is left where %x has that shape. Between the reshapes stand operators of one
tensor, element by element, each with one reader.

Law: every bit stays, and no operator is computed more than once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext, map_bodies
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import rewrite_pairs, use_counts
from codesign.ops.operator import Fusion
from codesign.ops.reshape import ReshapeAttrs
from codesign.ops.table import OPERATORS

_RESHAPES: Final = frozenset({"reshape", "expand_dims", "squeeze"})


@final
@dataclass(frozen=True, slots=True)
class RemoveStandaloneReshapes:
    """Join reshapes over the elementwise operators between them."""

    name: ClassVar[str] = "remove-standalone-reshapes"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with such reshapes joined."""
        types = infer_types(module)
        return map_bodies(module, lambda body: _joined(body, types))


def _joined(body: Expr, types: Mapping[Expr, Type]) -> Expr:
    facts = Facts(types)
    readers = dict(use_counts(body))

    def rule(original: Expr, rebuilt: Expr) -> Expr:
        readers[rebuilt] = readers[original]
        facts.replaced(original, rebuilt)
        chain = _chain(rebuilt, facts, readers)
        if chain is not None:
            new = _moved(rebuilt, chain, facts, readers)
        elif isinstance(rebuilt, Call) and _moves_nothing(rebuilt, facts):
            new = rebuilt.args[0]
        else:
            return rebuilt
        readers[new] = readers.get(new, 0) + readers[original]
        return new

    return rewrite_pairs(body, rule)


def _moved(node: Expr, chain: tuple[Call, ...], facts: Facts, readers: dict[Expr, int]) -> Expr:
    """Return the operators of a chain on what its first reshape takes, in the last one's shape."""
    first, *operators = chain
    new, shape = first.args[0], facts.shape(node)
    assert shape is not None, "a chain ends with a known shape"
    if facts.shape(new) != shape:
        new = Call(OpRef("reshape", first.span), (new,), ReshapeAttrs(shape=shape), first.span)
        readers[new] = 1 if operators else 0
    for each in operators:
        new = replace(each, args=(new,))
        readers[new] = 0 if each is operators[-1] else 1
    return new


def _chain(node: Expr, facts: Facts, readers: Mapping[Expr, int]) -> tuple[Call, ...] | None:
    """Return a reshape and the operators after it, up to the reshape `node`; None if it is none."""
    if not isinstance(node, Call) or not _is_reshape(node) or facts.shape(node) is None:
        return None
    found: list[Call] = []
    below = node.args[0]
    while isinstance(below, Call) and readers[below] == 1:
        if _is_reshape(below):
            is_known = facts.shape(below.args[0]) is not None
            return (below, *reversed(found)) if is_known else None
        if not _is_by_element(below):
            return None
        found.append(below)
        below = below.args[0]
    return None


def _moves_nothing(node: Call, facts: Facts) -> bool:
    shape = facts.shape(node)
    return _is_reshape(node) and shape is not None and facts.shape(node.args[0]) == shape


def _is_reshape(node: Call) -> bool:
    return isinstance(node.callee, OpRef) and node.callee.name in _RESHAPES


def _is_by_element(node: Call) -> bool:
    match node:
        case Call(OpRef(name), (_,)):
            return OPERATORS[name].fusion is Fusion.ELEMENTWISE
        case _:
            return False
