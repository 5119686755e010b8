"""A function from codes to codes: a step that is taken many times, its state kept in integers.

    (%h: float32, %x: float32) -> h'     becomes     (%h: int8, %x: int8) -> h': int8

What enters as a state has the scale of the result that becomes it, so that the codes of one step
are those of the next: nothing is converted in between.

Gates share one table. With x = scale * q, the codes of tanh(x) in steps of 1/128 from 0 and those
of sigmoid(2 * x) in steps of 1/256 from -128 are the same, since sigmoid(2 * x) is
(1 + tanh(x)) / 2: all that a sigmoid or a tanh alone reads has one scale, or its double.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeAlias, final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.quantization.calibrate import Evaluator, Sample, calibrate, interpret
from codesign.compiler.quantization.config import QuantizationConfig
from codesign.compiler.quantization.forms import Affine, Floating, Lookup, Sum
from codesign.compiler.quantization.params import QuantParams
from codesign.compiler.quantization.plan import Plan, make_plan
from codesign.compiler.quantization.realize import Realizer
from codesign.diagnostics import CodesignError, Problem
from codesign.dtypes import DType
from codesign.ir.relay.expr import Call, Expr, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order, use_counts

_STEPS: Final[Mapping[str, tuple[int, QuantParams]]] = MappingProxyType(
    {"tanh": (1, QuantParams(1 / 128, 0)), "sigmoid": (2, QuantParams(1 / 256, -128))}
)
"""What is shared: the factor of the argument's scale, and what the codes mean."""

Tie: TypeAlias = tuple[str, int]
"""A parameter and the index of the result that becomes it."""


@final
@dataclass(frozen=True, slots=True)
class IntegerCell:
    """A module whose main takes and gives int8 tensors, and what their codes mean."""

    module: Module
    inputs: Mapping[str, QuantParams]
    outputs: tuple[QuantParams, ...]


def has_integer_form(module: Module) -> bool:
    """Whether `main`, the result of optimize(), has operators with an integer form only."""
    plan = make_plan(module.main, infer_types(module), coded_inputs=True)
    return not any(isinstance(form, Floating) for form in plan.forms.values())


def quantize_cell(
    module: Module,
    samples: Iterable[Sample],
    *,
    states: Sequence[Tie] = (),
    evaluate: Evaluator = interpret,
    config: QuantizationConfig | None = None,
) -> IntegerCell:
    """Return `main`, the result of optimize(), from codes to codes.

    `states` names parameters that a result of another step becomes: both have one scale. Results
    are those of the tuple that main gives, or its one value.

    Raises
    ------
    CodesignError
        An operator has no integer form, a parameter is read by none, there is no sample, or a
        value is not finite.
    """
    main = module.main
    types = infer_types(module)
    results = main.body.fields if isinstance(main.body, Tuple) else (main.body,)
    plan = make_plan(main, types, coded_inputs=True)
    _refuse_floating(plan, results)
    params = {param.name: param for param in main.params}
    calibration = calibrate(
        main,
        plan,
        samples,
        evaluate,
        QuantizationConfig() if config is None else config,
        [(params[name], results[index]) for name, index in states],
    )
    _refuse_unread(main, calibration.params)
    given = set(results)
    scales = {**calibration.params, **_gates(plan, main, calibration.params, given)}
    realizer = Realizer(plan, scales, types, calibration.moments)
    coded = tuple(_coded(param, types[param]) for param in main.params)
    realizer.codes.update(zip(main.params, coded, strict=True))
    for node in post_order(main.body):
        realizer.visit(node)
    if realizer.failures:
        raise _refusal(realizer.failures)
    codes = tuple(realizer.as_codes(result) for result in results)
    body = Tuple(codes, main.body.span) if isinstance(main.body, Tuple) else codes[0]
    return IntegerCell(
        module.with_main(replace(main, params=coded, body=body, result_type=None)),
        {param.name: scales[param] for param in main.params},
        tuple(scales[result] for result in results),
    )


def _gates(
    plan: Plan, main: Function, chosen: Mapping[Expr, QuantParams], given: set[Expr]
) -> dict[Expr, QuantParams]:
    """Return the scales of what gates read and give; what is `given` keeps its own."""
    uses = use_counts(main.body)
    found: dict[Expr, QuantParams] = {}
    widths: list[float] = []
    gates: list[tuple[Expr, int]] = []
    for key, form in plan.forms.items():
        if not isinstance(form, Lookup) or len(form.chain) > 1 or key in given:
            continue
        name, source = _operator(key), form.data
        if name not in _STEPS:
            continue
        found[key] = _STEPS[name][1]
        own = isinstance(plan.forms.get(source), Affine | Sum) and uses[source] == 1
        if own and source not in given:
            factor = _STEPS[name][0]
            widths.append(max(-chosen[source].low, chosen[source].high) / factor)
            gates.append((source, factor))
    scale = float(np.float32(max(widths, default=1.0) / DType.INT8.maximum))
    return found | {source: QuantParams(factor * scale, 0) for source, factor in gates}


def _coded(param: Var, type_: object) -> Var:
    assert isinstance(type_, TensorType), "codes are tensors"
    return Var(param.name, replace(type_, dtype=DType.INT8), param.span)


def _refuse_floating(plan: Plan, results: Sequence[Expr]) -> None:
    reasons = {key: f.reason for key, f in plan.forms.items() if isinstance(f, Floating)}
    if reasons:
        raise _refusal(reasons)
    for result in results:
        if result not in plan.forms:
            raise CodesignError(
                Problem(what="a cell's result is what an operator gives", span=result.span)
            )


def _refusal(reasons: Mapping[Expr, str]) -> CodesignError:
    return CodesignError(
        *(
            Problem(
                what=f"a cell in integers cannot hold {_operator(key)}",
                found=reason,
                help="give what is not a cell's to the host: its results become inputs",
                span=key.span,
            )
            for key, reason in reasons.items()
        )
    )


def _refuse_unread(main: Function, params: Mapping[Expr, QuantParams]) -> None:
    for param in main.params:
        if param not in params:
            raise CodesignError(
                Problem(what=f"no operator of the cell reads {param.name!r}", span=param.span)
            )


def _operator(key: Expr) -> str:
    match key:
        case Call(callee=OpRef(name=name)):
            return name
        case _:
            return "this expression"
