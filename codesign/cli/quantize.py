"""`codesign quantize`: what a network's layers lose as integers, layer by layer."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated

import numpy as np
import typer

from codesign.cli.console import output, progress
from codesign.cli.options import Json, ModelArgument, Shapes, shapes
from codesign.cli.quantization import (
    GlobalRange,
    Percentile,
    PerTensor,
    PowerOfTwo,
    Ranges,
    SchemeName,
    quantization,
)
from codesign.compiler.quantization import QuantizationReport, Scheme
from experiments.road.build import compile_fp32, compile_int8, quantize_subject
from experiments.road.subject import Subject, subject
from host_runtime.session import Session

Samples = Annotated[
    int, typer.Option("--samples", min=1, help="Inputs on which integers and fp32 are compared.")
]


def quantize_command(
    model: ModelArgument,
    *,
    scheme: SchemeName = Scheme.INT8_SUMS32,
    ranges: Ranges = None,
    percentile: Percentile = None,
    global_range: GlobalRange = None,
    power_of_two: PowerOfTwo = False,
    per_tensor: PerTensor = False,
    samples: Samples = 16,
    shape: Shapes = None,
    as_json: Json = False,
) -> int:
    """Quantize a network and report every layer's range, scale, clipped values and error.

    Example: codesign quantize digits --scheme 8/16 --ranges kl
    """
    judged = subject(model, samples=samples, shapes=shapes(shape))
    chosen = quantization(
        judged.quantization,
        scheme=scheme,
        ranges=ranges,
        percentile=percentile,
        global_range=global_range,
        power_of_two=power_of_two,
        per_tensor=per_tensor,
    )
    judged = replace(judged, quantization=replace(chosen, measure_error=True))
    quantized = quantize_subject(judged, progress().print)
    integers = Session(compile_int8(judged, quantized, progress().print))
    floats = Session(compile_fp32(judged, progress().print))
    facts = _judged(judged, floats, integers)
    if as_json:
        print(json.dumps(_json(judged, quantized.report, facts), indent=2))
    else:
        _print(judged, quantized.report, facts)
    return 0


def _judged(judged: Subject, floats: Session, integers: Session) -> dict[str, float]:
    """Return the error of the first output, and how often its greatest element is the same."""
    same, right = 0, 0
    signal, noise = 0.0, 0.0
    for index, inputs in enumerate(judged.evaluation):
        wanted, found = (
            np.asarray(next(iter(session.run(inputs).values())), np.float64).reshape(-1)
            for session in (floats, integers)
        )
        signal += float(wanted @ wanted)
        noise += float((found - wanted) @ (found - wanted))
        same += int(wanted.argmax() == found.argmax())
        right += int(judged.labels is not None and found.argmax() == judged.labels[index])
    count = len(judged.evaluation)
    with np.errstate(divide="ignore"):
        facts = {"sqnr_db": float(10 * np.log10(np.float64(signal) / noise)) if signal else 0.0}
    facts["same_top1_percent"] = 100 * same / count
    if judged.labels is not None:
        facts["right_top1_percent"] = 100 * right / count
    return facts


def _print(judged: Subject, report: QuantizationReport, facts: dict[str, float]) -> None:
    title = f"{judged.title} as {report.scheme} (bits of values / of sums)"
    output().print(f"{title}, ranges from {report.samples} samples by {judged.quantization.method}")
    output().print(report.table(), soft_wrap=True, markup=False, highlight=False)
    if not report.layers:
        output().print("the network holds integers already and keeps its own rules")
    said = ", ".join(f"{name} {value:.4g}" for name, value in facts.items())
    output().print(f"on {len(judged.evaluation)} other inputs: {said}")


def _json(
    judged: Subject, report: QuantizationReport, facts: dict[str, float]
) -> dict[str, object]:
    return {
        "network": judged.name,
        "scheme": str(report.scheme),
        "ranges": str(judged.quantization.method),
        "samples": report.samples,
        "layers": [asdict(layer) for layer in report.layers],
        **facts,
    }
