"""to-graph-normal-form: share values as nodes in the place of variables.

    let %a = nn.relu(%x); let %b = exp(%a); add(%a, %b)
becomes
    %0 = nn.relu(%x); add(%0, exp(%0))

A `let` goes where its value does nothing but give a value and all uses are in the same function: a
node that is reached twice is evaluated once in each activation. What reads or writes cells, makes
one, is a function, is used inside a function below, or has an annotation that inference may need
keeps its `let`. Names for other variables, constants and global functions go always.

Laws: the answer is the same bit for bit, so are the types; what is in this form is left alone. A
value that is not needed on the way that is taken is not computed any more, so that an error may go.

Source: Relay's ToGraphNormalForm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.annotate import keeping_types
from codesign.compiler.analysis.boundaries import boundary_variables
from codesign.compiler.analysis.effects import Effect, Effects
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import Constructor, Expr, Function, Let, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import ATOMS, binders
from codesign.ir.relay.types import UNKNOWN, TensorType, Type
from codesign.ir.relay.visit import children, post_order, rewrite_lets


@final
@dataclass(frozen=True, slots=True)
class ToGraphNormalForm:
    """Replace variables of pure values by the values."""

    name: ClassVar[str] = "to-graph-normal-form"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED, Form.GRAPH})

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module in graph normal form."""
        return keeping_types(module, _graph)


def _graph(module: Module) -> Module:
    boundaries = boundary_variables(module)
    while (graph := _once(module, boundaries)) is not module:  # a let that goes may free others
        module = graph
    return module


def _once(module: Module, boundaries: Collection[Var]) -> Module:
    effects = Effects(module)
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        rewritten = _rewrite(function, effects.of_all(function), boundaries)
        assert isinstance(rewritten, Function), "a function stays one"
        functions[name] = rewritten
    if all(functions[name] is old for name, old in module.functions.items()):
        return module
    return module.with_functions(functions)


def _rewrite(
    function: Function, effects: Mapping[Expr, Effect], boundaries: Collection[Var]
) -> Expr:
    escaping = _used_below(function)

    def bind(let: Let, value: Expr) -> Expr | None:
        if let.var in boundaries or not _is_known_without(let.var.annotation, value):
            return None
        if isinstance(value, ATOMS):
            return value
        if isinstance(value, Function):
            return None
        movable = effects[let.value] & ~Effect.FAILS == Effect.NONE
        return value if movable and let.var not in escaping else None

    return rewrite_lets(function, lambda _, rebuilt: rebuilt, bind)


def _is_known_without(annotation: Type | None, value: Expr) -> bool:
    """Return whether inference needs no annotation: a static tensor's, which follows."""
    match annotation:
        case None:
            return True
        case TensorType(shape):
            return UNKNOWN not in shape and not isinstance(value, Constructor)
        case _:
            return False


def _used_below(root: Function) -> set[Expr]:
    """Return the variables that may be used inside a function that does not bind them."""
    bound_in: dict[Expr, Expr] = dict.fromkeys(root.params, root)
    visited_in: dict[Expr, Expr] = {}
    crossing: list[Expr] = []
    found: set[Expr] = set()
    pending: list[tuple[Expr, Expr]] = [(root.body, root)]
    while pending:
        node, function = pending.pop()
        if isinstance(node, Var):
            if bound_in.get(node) is not function:
                found.add(node)
            continue
        if node in visited_in:
            if visited_in[node] is not function:
                crossing.append(node)
            continue
        visited_in[node] = function
        inside = node if isinstance(node, Function) else function
        bound_in.update(dict.fromkeys(binders(node), inside))
        below = (node.body,) if isinstance(node, Function) else children(node)
        pending.extend((each, inside) for each in reversed(below) if each not in binders(node))
    found.update(node for node in post_order(*crossing) if isinstance(node, Var))
    return found
