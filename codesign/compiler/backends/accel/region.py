"""A region of int8 Relay to an accelerator kernel: match, place tensors, lower, emit."""

from __future__ import annotations

from collections.abc import Mapping

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.emit import emit
from codesign.compiler.backends.accel.fit import shortage, shortage_text
from codesign.compiler.backends.accel.match import (
    MOVES_NOTHING,
    Composite,
    match_composites,
    operator_name,
)
from codesign.compiler.backends.accel.obstacle import obstacle
from codesign.compiler.backends.accel.plan import JoinedPart, Plan, runs_on_gemm
from codesign.compiler.backends.accel.pooling import with_pools
from codesign.compiler.backends.accel.search import Search, Tuning
from codesign.diagnostics import CodesignError, Problem
from codesign.ir.executable.accel_kernel import AccelKernel
from codesign.ir.relay.expr import Call, Expr, Function, Tuple, Var
from codesign.ir.relay.types import TensorType, Type
from codesign.ir.relay.visit import post_order, use_counts
from codesign.ops.qnn.conv2d import QConv2DAttrs


def compile_accel(
    function: Function,
    types: Mapping[Expr, Type],
    config: AccelConfig,
    tuning: Tuning | None = None,
) -> AccelKernel:
    """Return the kernel of a function from int8 tensors to an int8 tensor or a tuple of them.

    Tile sizes are those that `tuning` finds fastest, else the estimate's.

    Raises
    ------
    CodesignError
        Calls that the accelerator cannot run: all of them, each with the reason.
    """
    results = function.body.fields if isinstance(function.body, Tuple) else (function.body,)
    calls = tuple(node for node in post_order(*results) if isinstance(node, Call))
    composites = match_composites(
        calls, use_counts(*results), types, residuals=takes_residuals(config), tables=config.has_lut
    )
    _refuse_obstacles(calls, composites, types, config)
    search = Search(config, tuning)
    composites = with_pools(
        composites, use_counts(*results), types, search, from_host=set(function.params)
    )
    plan = Plan(config, types, joins=_joins(composites, types, config))
    layers = [
        layer
        for composite in composites
        for layer in plan.add(composite, from_host=set(function.params))
    ]
    return emit(
        layers,
        config,
        inputs=tuple(plan.of_parameter(param) for param in function.params),
        outputs=tuple(plan.output(result) for result in results),
        tensors=tuple(plan.placements),
        activation_bytes=plan.size,
        search=search,
    )


def takes_residuals(config: AccelConfig) -> bool:
    """Whether layers of the array may take the sum with a residual along."""
    return config.has_multiplier


def unit_of(composite: Composite, config: AccelConfig) -> str:
    """Return which unit runs a composite without obstacles: gemm, vector, or none (no work)."""
    if operator_name(composite.main) in MOVES_NOTHING:
        return "none"
    return "gemm" if runs_on_gemm(composite, config) else "vector"


def why_not(composite: Composite, types: Mapping[Expr, Type], config: AccelConfig) -> str | None:
    """Return why the accelerator cannot run a composite, in one sentence; None where it can."""
    reason = obstacle(composite, types, config)
    if reason is not None or operator_name(composite.main) in MOVES_NOTHING:
        return reason
    layer = Plan(config, types, apart=True).trial(composite)
    needs = shortage(layer, config)
    if not needs or _fits_unrolled(composite, types, config):
        return None
    return shortage_text(needs[0], config)


def _fits_unrolled(composite: Composite, types: Mapping[Expr, Type], config: AccelConfig) -> bool:
    """Whether a layer that reads an input of the network fits once the host has unrolled it."""
    source = composite.data[0]
    if not isinstance(source, Var) or not isinstance(composite.main.attrs, QConv2DAttrs):
        return False
    if not runs_on_gemm(composite, config):
        return False
    plan = Plan(config, types, apart=True)
    result = plan.result_of(composite, "result")
    return not shortage(plan.best_unrolling(composite, "trial", source, result), config)


def _refuse_obstacles(
    calls: tuple[Call, ...],
    composites: tuple[Composite, ...],
    types: Mapping[Expr, Type],
    config: AccelConfig,
) -> None:
    matched = {call for composite in composites for call in composite.calls}
    problems = [
        Problem(
            what=f"{operator_name(call)} has no form on the accelerator",
            found="it is no part of a layer",
            span=call.span,
        )
        for call in calls
        if call not in matched
    ]
    for composite in composites:
        reason = obstacle(composite, types, config)
        if reason is not None:
            problems.append(
                Problem(
                    what=f"the accelerator cannot run {operator_name(composite.main)}",
                    found=reason,
                    span=composite.main.span,
                )
            )
    if problems:
        raise CodesignError(*problems)


def _joins(
    composites: tuple[Composite, ...], types: Mapping[Expr, Type], config: AccelConfig
) -> dict[Expr, JoinedPart]:
    """Return of which joined tensor an expression is a part, and where in it."""
    found: dict[Expr, JoinedPart] = {}
    for composite in composites:
        if operator_name(composite.main) != "concatenate" or composite.gathers:
            continue
        channel, step = 0, composite.step
        for index, part in enumerate(composite.data):
            if part in found:
                raise CodesignError.of("a tensor is a part of two joined ones")
            if composite.spread:
                place = divmod(index, step[1])
                found[part] = JoinedPart(composite.root, place=place, step=step)
                continue
            found[part] = JoinedPart(composite.main, channel=channel)
            type_ = types[part]
            if isinstance(type_, TensorType):
                channel += -(-type_.static_shape[1] // config.block_out)
    return found
