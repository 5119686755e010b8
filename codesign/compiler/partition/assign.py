"""assign: for every call of a graph, host or accelerator, and why not the accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.match import (
    MOVES_NOTHING,
    SUMS,
    Composite,
    match_composites,
    operator_name,
)
from codesign.compiler.backends.accel.region import takes_residuals, unit_of, why_not
from codesign.compiler.partition.graph import graph_order
from codesign.ir.relay.expr import Call, Expr, Tuple
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import use_counts
from codesign.ops.operator import NotOnAccelerator
from codesign.ops.table import operator


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assignment:
    """The composites that run on the accelerator, by each of their calls; reasons of the rest.

    `units` is gemm, vector, none (a reshape) or host, for every call.
    """

    composites: Mapping[Expr, Composite]
    units: Mapping[Expr, str]
    reasons: Mapping[Expr, str]


def assign(
    results: tuple[Expr, ...], types: Mapping[Expr, Type], config: AccelConfig | None
) -> Assignment:
    """Return where every call of the graph under `results` runs; without `config`, on the host."""
    calls = tuple(node for node in graph_order(*results) if isinstance(node, Call))
    if config is None:
        return Assignment(
            composites={},
            units=dict.fromkeys(calls, "host"),
            reasons=dict.fromkeys(calls, "the target is the host"),
        )
    composites: dict[Expr, Composite] = {}
    units: dict[Expr, str] = {}
    reasons: dict[Expr, str] = {call: _reason(call) for call in calls}
    joined: set[Expr] = set()
    found = match_composites(
        calls, use_counts(*results), types, residuals=takes_residuals(config), tables=config.has_lut
    )
    for composite in found:
        reason = why_not(composite, types, config)
        if reason is None and operator_name(composite.main) == "reshape":
            reason = _follows(composite, composites)
        is_join = operator_name(composite.main) == "concatenate" and not composite.gathers
        if reason is None and is_join:
            reason = _joins(composite, composites, joined)
        for call in composite.calls:
            if reason is None:
                composites[call] = composite
                units[call] = unit_of(composite, config)
                del reasons[call]
            else:
                reasons[call] = reason
    for join in _read_on_the_host(calls, composites):
        reasons[join] = "a product that reads it is on the host"
        del composites[join], units[join]
    return Assignment(
        composites=composites,
        units={call: units.get(call, "host") for call in calls},
        reasons=reasons,
    )


def _read_on_the_host(
    calls: tuple[Call, ...], composites: Mapping[Expr, Composite]
) -> dict[Call, None]:
    """Return the concatenations without a place that a product on the host reads."""
    return {
        arg: None
        for call in calls
        if call not in composites
        for arg in call.args
        if isinstance(arg, Call) and arg in composites
        if composites[arg].gathers and composites[arg].main is arg
    }


def _follows(reshape: Composite, composites: Mapping[Expr, Composite]) -> str | None:
    if reshape.main.args[0] in composites:
        return None
    return "it moves nothing, and what it reshapes is on the host"


def _joins(join: Composite, composites: Mapping[Expr, Composite], joined: set[Expr]) -> str | None:
    """Return why layers cannot write the parts of a tensor in place; remember them if they can."""
    makers = [composites.get(part) for part in join.data]
    if any(
        maker is None or maker.is_alone or operator_name(maker.main) in MOVES_NOTHING
        for maker in makers
    ):
        return "a part is not what a layer of the accelerator writes"
    if joined & set(join.data):
        return "a part is a part of another tensor already"
    joined.update(join.data)
    return None


def _reason(call: Call) -> str:
    name = operator_name(call)
    if name is None:
        return "it is a function, not an operator"
    support = operator(name).accel
    if isinstance(support, NotOnAccelerator):
        return support.reason
    if any(isinstance(arg, Tuple) for arg in call.args):
        return "the accelerator takes tensors, not tuples"
    if name in SUMS:
        return "its sums leave in 32 bits, without a qnn.requantize of their own"
    return "it stands in no pattern that makes a layer"
