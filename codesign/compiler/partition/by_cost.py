"""by_cost: of the layers that the accelerator can run, leave to the host what costs less there.

The times of layers and copies add up; that steps may run at the same time does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import final

from codesign.compiler.backends.accel.match import Composite, operator_name
from codesign.compiler.partition.assign import Assignment
from codesign.compiler.partition.costs import Costs, Totals
from codesign.compiler.partition.graph import graph_order, replaced, sources
from codesign.compiler.partition.sharing import Crossing, Sharing, Work
from codesign.ir.relay.expr import Call, Constant, Expr, Function, Project, Var
from codesign.ir.relay.types import TensorType, Type


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A layer that the accelerator can run, or a call (`composite` None) that only the host can."""

    root: Call
    composite: Composite | None

    @property
    def calls(self) -> tuple[Call, ...]:
        return (self.root,) if self.composite is None else self.composite.calls

    @property
    def is_alone(self) -> bool:
        """Whether all that it reads and gives goes through the host."""
        return self.composite is not None and self.composite.is_alone

    @property
    def gathers(self) -> bool:
        """Whether it is a concatenation that has no place of its own on the accelerator."""
        return self.composite is not None and self.composite.gathers and self.is_a("concatenate")

    @property
    def data(self) -> tuple[Expr, ...]:
        """What it reads from outside, constants left out."""
        inner = set(self.calls)
        read = (each for call in self.calls for each in sources(call) if each not in inner)
        return tuple(dict.fromkeys(each for each in read if not isinstance(each, Constant)))

    def is_a(self, name: str) -> bool:
        return self.composite is not None and operator_name(self.composite.main) == name


def place_by_cost(
    results: tuple[Expr, ...],
    types: Mapping[Expr, Type],
    assignment: Assignment,
    costs: Costs,
    *,
    one_layer: bool,
) -> tuple[Assignment, Totals]:
    """Return where each layer of an assignment runs so that the total is least, and the totals.

    The reason of each layer says what it costs on either side, and what moving it alone would
    change in copies. `one_layer`: no layer reads another's result on the accelerator, every tensor
    goes through the host. A call for the host alone that takes or gives tuples counts as nothing.
    """
    order = tuple(graph_order(*results))
    pieces = _pieces(order, assignment)
    makers = _makers(order, pieces)
    sharing = Sharing(
        works=tuple(_work(piece, types, costs, one_layer=one_layer) for piece in pieces),
        tensors=_crossings(pieces, makers, results, types, costs, one_layer=one_layer),
        bound=_bound(pieces, makers),
    )
    chosen = sharing.cheapest()
    every = frozenset(i for i, piece in enumerate(pieces) if piece.composite is not None)
    totals = Totals(
        chosen_s=sharing.total_ns(chosen) / 1e9,
        all_on_accel_s=sharing.total_ns(every) / 1e9,
        all_on_host_s=sharing.total_ns(frozenset()) / 1e9,
    )
    return _placed(assignment, pieces, sharing, chosen), totals


def _pieces(order: tuple[Expr, ...], assignment: Assignment) -> tuple[_Piece, ...]:
    pieces = []
    for node in order:
        if isinstance(node, Call):
            composite = assignment.composites.get(node)
            if composite is None or composite.root is node:
                pieces.append(_Piece(node, composite))
    return tuple(pieces)


def _makers(order: tuple[Expr, ...], pieces: tuple[_Piece, ...]) -> dict[Expr, int]:
    """Return the piece that makes each value, a field of a tuple included."""
    makers: dict[Expr, int] = {call: i for i, piece in enumerate(pieces) for call in piece.calls}
    for node in order:
        if isinstance(node, Project) and node.value in makers:
            makers[node] = makers[node.value]
    return makers


def _work(piece: _Piece, types: Mapping[Expr, Type], costs: Costs, *, one_layer: bool) -> Work:
    host_ns = _host_ns(piece, types, costs)
    if piece.composite is None:
        return Work(host_ns=host_ns, accel_ns=None)
    accel_ns = costs.accel_ns(piece.composite)
    if one_layer or piece.is_alone:
        crossing = piece.data if piece.gathers else (*_placed_data(piece), piece.root)
        accel_ns += sum(_copy_ns(each, types, costs) for each in crossing)
    return Work(host_ns=host_ns, accel_ns=accel_ns)


def _placed_data(piece: _Piece) -> tuple[Expr, ...]:
    """Return what a piece reads from places of their own, not part by part."""
    if piece.composite is None or not piece.composite.gathers:
        return piece.data
    return tuple(each for each in piece.data if operator_name(each) != "concatenate")


def _host_ns(piece: _Piece, types: Mapping[Expr, Type], costs: Costs) -> int:
    if not all(isinstance(types[each], TensorType) for each in (piece.root, *piece.data)):
        return 0
    values: dict[Expr, Expr] = {}
    for index, each in enumerate(piece.data):
        values[each] = Var(f"value{index}", types[each])
    params = tuple(param for param in values.values() if isinstance(param, Var))
    return costs.host_ns(Function(params=params, body=replaced(piece.root, values)))


def _crossings(
    pieces: tuple[_Piece, ...],
    makers: Mapping[Expr, int],
    results: tuple[Expr, ...],
    types: Mapping[Expr, Type],
    costs: Costs,
    *,
    one_layer: bool,
) -> tuple[Crossing, ...]:
    """Return the tensors whose copies depend on who reads them where."""
    readers: dict[Expr, set[int]] = {result: set() for result in results}
    through_host = set(results)
    makers = {value: maker for value, maker in makers.items() if not pieces[maker].is_alone}
    for index, piece in enumerate(pieces):
        for each in piece.data:
            readers.setdefault(each, set())
            if piece.is_alone:
                through_host.add(each)
            else:
                readers[each].add(index)
    return tuple(
        Crossing(
            maker=makers.get(value),
            readers=frozenset(where),
            is_result=value in through_host,
            copy_ns=_copy_ns(value, types, costs),
        )
        for value, where in readers.items()
        if not one_layer or (value in makers and pieces[makers[value]].gathers)
    )


def _copy_ns(value: Expr, types: Mapping[Expr, Type], costs: Costs) -> int:
    type_ = types[value]
    if not isinstance(type_, TensorType):
        return 0  # only the host reads and writes tuples
    return costs.copy_ns(prod(type_.static_shape) * type_.dtype.numpy.itemsize)


def _bound(pieces: tuple[_Piece, ...], makers: Mapping[Expr, int]) -> frozenset[tuple[int, int]]:
    """Return which layers need which others on the accelerator.

    A reshape follows its data, the parts of a tensor are written in place, and a concatenation
    without a place needs all its readers there.
    """
    pairs: set[tuple[int, int]] = set()
    for index, piece in enumerate(pieces):
        for each in piece.data:
            maker = makers.get(each)
            if maker is None:
                continue
            if pieces[maker].gathers:
                pairs.add((maker, index))
            if piece.is_a("reshape") or (piece.is_a("concatenate") and not piece.gathers):
                pairs.add((index, maker))
    return frozenset(pairs)


def _placed(
    assignment: Assignment,
    pieces: tuple[_Piece, ...],
    sharing: Sharing,
    chosen: frozenset[int],
) -> Assignment:
    composites, units = dict(assignment.composites), dict(assignment.units)
    reasons = dict(assignment.reasons)
    for index, piece in enumerate(pieces):
        if piece.composite is None:
            continue
        text = _reason(sharing, chosen, index)
        for call in piece.calls:
            reasons[call] = text
            if index not in chosen:
                units[call] = "host"
                del composites[call]
    return Assignment(composites=composites, units=units, reasons=reasons)


def _reason(sharing: Sharing, chosen: frozenset[int], index: int) -> str:
    work = sharing.works[index]
    assert work.accel_ns is not None, "the accelerator can run it"
    is_there = index in chosen
    here, there = work.host_ns, work.accel_ns
    if is_there:
        here, there = there, here
    change = sharing.copies_ns(chosen ^ {index}) - sharing.copies_ns(chosen)
    sides = ("accelerator", "host") if is_there else ("host", "accelerator")
    copies = f"{_us(abs(change))} {'more' if change >= 0 else 'less'} of copies"
    return f"{_us(here)} on the {sides[0]}; on the {sides[1]} {_us(there)} and {copies}"


def _us(time_ns: int) -> str:
    return f"{time_ns / 1000:.1f} us"
