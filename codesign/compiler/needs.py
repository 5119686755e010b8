"""What nodes of a Relay program need of an activation, and how often a value is needed."""

from __future__ import annotations

from typing import final

from codesign.ir.relay.expr import Call, Expr, Function, Let, OpRef, Var
from codesign.ir.relay.type_algebra import lengths_of
from codesign.ir.relay.visit import children, free_variables, use_counts


@final
class Needs:
    """What nodes need of an activation, kept between activations.

    A function literal needs the values of its free variables, not the nodes of its body.
    """

    def __init__(self) -> None:
        self._counts: dict[Expr, dict[Expr, int]] = {}
        self._free: dict[Function, tuple[Var, ...]] = {}
        self._named: dict[Function, bool] = {}

    def free_variables(self, function: Function) -> tuple[Var, ...]:
        """Return the variables whose values a closure of the function keeps."""
        if function not in self._free:
            self._free[function] = free_variables(function)
        return self._free[function]

    def has_lengths(self, function: Function) -> bool:
        """Return whether parameters of the function have lengths with names."""
        if function not in self._named:
            types = [param.annotation for param in function.params]
            self._named[function] = any(each and any(lengths_of(each)) for each in types)
        return self._named[function]

    def use_counts(self, body: Expr) -> dict[Expr, int]:
        """Return how often each node is needed in one activation of the body."""
        if body not in self._counts:
            self._counts[body] = use_counts(body, below=self._below)
        return dict(self._counts[body])

    def _below(self, node: Expr) -> tuple[Expr, ...]:
        return self.free_variables(node) if isinstance(node, Function) else children(node)

    def consumed(self, node: Expr) -> tuple[Expr, ...]:
        """Return what an evaluated node needs no more; a `let` has released its value before."""
        match node:
            case Let(_, _, body):
                return (body,)
            case Call(OpRef(), args):
                return args
            case _:
                return self._below(node)
