"""Types that nothing determines and nothing needs: any would do, and `()` is chosen.

    let %nothing = Nil; 1        the list of no elements is a List[()]

What an operator or a field waits for stays open, and so does what a global function takes or gives:
a mistake tells of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from codesign.compiler.analysis.type_constraints import Constraint
from codesign.compiler.analysis.unify import Unifier
from codesign.ir.relay.types import Hole, TupleType, Type


def settle_unneeded(
    unifier: Unifier[Constraint],
    types: Iterable[Type],
    signatures: Iterable[Type],
    constraints: Iterable[Constraint],
) -> None:
    """Choose `()` for open types that neither a signature mentions nor a constraint waits for."""
    found: list[Hole] = []
    for type_ in types:
        if not unifier.is_poisoned(type_):
            found += unifier.open_holes(type_)
    if not found:
        return
    needed = {hole for each in signatures for hole in unifier.open_holes(each)}
    for constraint in constraints:
        if not constraint.is_done:
            waiting = constraint.waits_for()
            needed.update(hole for each in waiting for hole in unifier.open_holes(each))
    for hole in dict.fromkeys(found):
        if hole not in needed and unifier.open_holes(hole):
            unifier.flow(hole, TupleType(()))
