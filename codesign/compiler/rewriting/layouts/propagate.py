"""Move layers to other layouts and let what is between them follow.

Every value is known as it lies; where it is needed otherwise a `layout_transform` is made, once for
each layout. Elementwise operators, reductions, pads, slices and joins take the layout of their
operand along; what else there is reads values as the program has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias, final

from codesign.compiler.analysis.facts import Facts
from codesign.compiler.rewriting.layouts.followers import Follower, follower
from codesign.compiler.rewriting.layouts.place import Place, transformed
from codesign.ir.relay.expr import Attrs, Call, Expr, Function, Let, OpRef, Tuple, Var
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import children, post_order, with_children
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs

Wish: TypeAlias = Callable[[Call, str | None], tuple[str, ...] | None]
"""`(layer, layout in which its data lies if not the program's) -> layouts of data and weight`.

None where the layer stays.
"""


def in_layouts(body: Expr, types: Mapping[Expr, Type], wish: Wish) -> Expr:
    """Return a body whose layers have the layouts that are wished for."""
    return _Mover(types, wish).run(body)


@final
class _Mover:
    def __init__(self, types: Mapping[Expr, Type], wish: Wish) -> None:
        self.facts = Facts(types)
        self.wish = wish
        self.lying: dict[Expr, tuple[Expr, Place | None]] = {}
        self.known: dict[tuple[Expr, Place | None], Expr] = {}
        self.values: dict[Var, Expr] = {}

    def run(self, body: Expr) -> Expr:
        nodes = tuple(post_order(body))
        self.values = {
            node.var: node.value
            for node in nodes
            if isinstance(node, Let) and not isinstance(node.value, Function)
        }
        for node in nodes:
            self.lying[node] = self._visit(node)
        return self._as(body, None)

    def _as(self, node: Expr, place: Place | None) -> Expr:
        """Return a node of the program as it lies at a place, None: as the program has it."""
        value, now = self.lying[node]
        if place == now:
            return value
        key = (node, place)
        if key not in self.known:
            plain = value if now is None else now.back(value)
            if now is not None and place is not None and now.source == place.source:
                self.known[key] = transformed(value, now.target, place.target)
            else:
                self.known[key] = plain if place is None else place.move(plain)
        return self.known[key]

    def _visit(self, node: Expr) -> tuple[Expr, Place | None]:
        match node:
            case Call(OpRef(), _, Conv2DAttrs() | Pool2DAttrs()):
                return self._layer(node)
            case Call(OpRef()):
                return self._operator(node)
            case Var() if node in self.values:
                place = self.lying[self.values[node]][1] if node.annotation is None else None
                return (node if place is None else Var(node.name, None, node.span)), place
            case Let(var, value):
                place = self.lying[var][1]
                bound, body = self.lying[var][0], self._as(node.body, None)
                return with_children(node, (self._as(value, place), bound, body)), None
            case _:
                return self._plain(node), None

    def _plain(self, node: Expr) -> Expr:
        return with_children(node, tuple(self._as(each, None) for each in children(node)))

    def _layer(self, node: Call) -> tuple[Expr, Place | None]:
        lies = self.lying[node.args[0]][1]
        wanted = self.wish(node, None if lies is None else lies.target)
        attrs = node.attrs
        assert isinstance(attrs, Conv2DAttrs | Pool2DAttrs), "seen before"
        own = own_layouts(attrs)
        if wanted is None or wanted == own or not self._fits(node, own, wanted):
            return self._plain(node), None
        places = tuple(Place(*pair) for pair in zip(own, wanted, strict=True))
        args = tuple(
            self._as(arg, place if place.is_moved else None)
            for arg, place in zip(node.args, places, strict=True)
        )
        made = replace(node, args=args, attrs=_with_layouts(attrs, wanted))
        return made, places[0] if places[0].is_moved else None

    def _fits(self, node: Call, own: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
        """Return whether blocks divide what the layer reads and makes."""
        places = [Place(*pair) for pair in zip(own, wanted, strict=True)]
        pairs = [*zip(places, node.args, strict=True), (places[0], node)]
        cut = [(place, self.facts.shape(each)) for place, each in pairs if place.is_cut]
        return all(shape is not None and place.holds(shape) for place, shape in cut)

    def _operator(self, node: Call) -> tuple[Expr, Place | None]:
        operands = node.args
        if len(operands) == 1 and isinstance(operands[0], Tuple):
            operands = operands[0].fields
        for operand in operands:
            place = self.lying[operand][1]
            if place is None:
                continue
            found = follower(node, operands, place, self.facts)
            if found is not None:
                return self._followed(node, operands, found)
        return self._plain(node), None

    def _followed(
        self, node: Call, operands: tuple[Expr, ...], found: Follower
    ) -> tuple[Expr, Place | None]:
        args = tuple(
            adapt(self._as(each, place))
            for each, place, adapt in zip(operands, found.places, found.adapted, strict=True)
        )
        if isinstance(node.args[0], Tuple):
            args = (Tuple(args, node.args[0].span),)
        return replace(node, callee=found.callee or node.callee, args=args,
                       attrs=found.attrs), found.result  # fmt: skip


def own_layouts(attrs: Attrs | None) -> tuple[str, ...]:
    """Return the layouts that a layer has now, of data and weight; none of what is no layer."""
    match attrs:
        case Conv2DAttrs(data_layout=data, kernel_layout=kernel):
            return data, kernel
        case Pool2DAttrs(layout=data):
            return (data,)
        case _:
            return ()


def _with_layouts(
    attrs: Conv2DAttrs | Pool2DAttrs, layouts: tuple[str, ...]
) -> Conv2DAttrs | Pool2DAttrs:
    match attrs:
        case Conv2DAttrs():
            return replace(attrs, data_layout=layouts[0], kernel_layout=layouts[1])
        case Pool2DAttrs():
            return replace(attrs, layout=layouts[0])
