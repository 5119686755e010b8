"""Post-training quantization: samples in, an integer network and a report out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.quantization.calibrate import (
    Calibration,
    Evaluator,
    Sample,
    calibrate,
    interpret,
    observed,
)
from codesign.compiler.quantization.config import QuantizationConfig
from codesign.compiler.quantization.forms import Floating, Form
from codesign.compiler.quantization.plan import make_plan
from codesign.compiler.quantization.realize import Realizer
from codesign.compiler.quantization.report import LayerReport, QuantizationReport
from codesign.compiler.quantization.transposed import split_transposed
from codesign.diagnostics import InternalError, OnnxNode
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Expr, OpRef
from codesign.ir.relay.expr import Function as RelayFunction
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order


@final
@dataclass(frozen=True, slots=True)
class Quantized:
    """An integer network with float32 inputs and outputs, and how it came about."""

    module: Module
    report: QuantizationReport


def quantize(
    module: Module,
    samples: Iterable[Sample],
    *,
    evaluate: Evaluator | None = None,
    config: QuantizationConfig | None = None,
) -> Quantized:
    """Return `main`, the result of optimize(), in the integer vocabulary.

    Each sample holds the inputs by name. `evaluate` runs the fp32 network; without it the
    interpreter does. Samples are taken one by one; only histograms are kept (and the samples
    themselves where the configuration asks for each layer's error). A module that holds codes, as
    an imported quantized network does, keeps its own rules: it is returned as it is.

    Raises
    ------
    CodesignError
        `main` is no graph of operator calls, there is no sample, or a value is not finite.
    """
    settings = QuantizationConfig() if config is None else config
    run = interpret if evaluate is None else evaluate
    if settings.measure_error:
        samples = tuple(samples)
    if _has_codes(module.main):
        return Quantized(module, QuantizationReport((), 0, settings.scheme))
    module = split_transposed(module)
    main = module.main
    types = infer_types(module)
    is_wide = settings.scheme.codes is DType.INT16
    plan = make_plan(
        main,
        types,
        float_results=settings.float_results or is_wide,
        tables=not is_wide,
        products=not is_wide and not settings.scheme.may_wrap,
    )
    calibration = calibrate(main, plan, samples, run, settings)
    realizer = Realizer(
        plan, calibration.params, types, calibration.moments, calibration.peaks, settings
    )
    for node in post_order(main.body):
        realizer.visit(node)
    quantized = replace(main, body=realizer.as_numbers(main.body))
    errors: Mapping[Expr, float] = {}
    if settings.measure_error:
        errors = _errors(main, realizer, samples, run)
    report = QuantizationReport(
        tuple(
            _layer(key, form, realizer, calibration, errors, i)
            for i, (key, form) in enumerate(plan.forms.items())
        ),
        calibration.samples,
        settings.scheme,
    )
    return Quantized(module.with_main(quantized), report)


def _has_codes(main: RelayFunction) -> bool:
    return any(
        isinstance(node, Call)
        and isinstance(node.callee, OpRef)
        and node.callee.name.startswith("qnn.")
        for node in post_order(main.body)
    )


def _errors(
    main: RelayFunction, realizer: Realizer, samples: Iterable[Sample], evaluate: Evaluator
) -> dict[Expr, float]:
    """Return the signal-to-noise ratio of every integer layer in dB, over all samples."""
    nodes = list(realizer.integers)
    exact = evaluate(observed(main, nodes))
    rounded = evaluate(observed(main, [realizer.as_numbers(node) for node in nodes]))
    signal = np.zeros(len(nodes))
    noise = np.zeros(len(nodes))
    for sample in samples:
        for index, (wanted, found) in enumerate(zip(exact(sample), rounded(sample), strict=True)):
            signal[index] += _energy(wanted)
            noise[index] += _energy(found - wanted)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = 10 * np.log10(signal / noise)
    return dict(zip(nodes, map(float, ratios), strict=True))


def _energy(values: Array) -> float:
    flat = values.astype(np.float64).reshape(-1)
    return float(flat @ flat)


def _layer(
    key: Expr,
    form: Form,
    realizer: Realizer,
    calibration: Calibration,
    errors: Mapping[Expr, float],
    index: int,
) -> LayerReport:
    if not isinstance(key, Call):
        raise InternalError("a plan's forms belong to calls")
    operator = _operator(key if isinstance(form, Floating) else form.chain[0])
    name = key.span.name if isinstance(key.span, OnnxNode) else f"{operator}:{index}"
    if isinstance(form, Floating) or key in realizer.failures:
        reason = form.reason if isinstance(form, Floating) else realizer.failures[key]
        return LayerReport(name=name, operator=operator, is_integer=False, reason=reason)
    histogram, params = calibration.histograms[key], calibration.params[key]
    layer = LayerReport(
        name=name,
        operator=operator,
        is_integer=True,
        least=histogram.least,
        greatest=histogram.greatest,
        values=int(histogram.counts.sum()),
        sqnr_db=errors.get(key),
        notes=realizer.notes.get(key, ()),
    )
    if key not in realizer.codes:
        return layer
    return replace(
        layer,
        low=params.low,
        high=params.high,
        scale=params.scale,
        zero_point=params.zero_point,
        clipped=histogram.outside(params.low - params.scale / 2, params.high + params.scale / 2),
    )


def _operator(call: Call) -> str:
    return call.callee.name if isinstance(call.callee, OpRef) else "call"
