"""Options of commands that quantize, and the configuration that they mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from codesign.compiler.quantization import QuantizationConfig, RangeMethod, Scheme
from codesign.diagnostics import CodesignError

SchemeName = Annotated[
    Scheme,
    typer.Option("--scheme", help="Bits of values and of the sums of their products."),
]
Ranges = Annotated[
    RangeMethod | None,
    typer.Option("--ranges", help="How ranges follow from the calibration samples. Default: mse."),
]
Percentile = Annotated[
    float | None,
    typer.Option("--percentile", help="Share of values that --ranges percentile keeps."),
]
GlobalRange = Annotated[
    float | None,
    typer.Option(
        "--global-range",
        help="Half of the one range of --ranges global. Default: the greatest magnitude seen.",
    ),
]
PowerOfTwo = Annotated[bool, typer.Option("--power-of-two", help="Scales are powers of two.")]
PerTensor = Annotated[
    bool, typer.Option("--per-tensor", help="One scale for all of a layer's weights.")
]


def quantization(
    default: QuantizationConfig,
    *,
    scheme: Scheme,
    ranges: RangeMethod | None = None,
    percentile: float | None = None,
    global_range: float | None = None,
    power_of_two: bool = False,
    per_tensor: bool = False,
) -> QuantizationConfig:
    """Return a network's own configuration with what the options change.

    Raises
    ------
    CodesignError
        A number is out of its range, or belongs to another way of choosing ranges.
    """
    method = default.method if ranges is None else ranges
    for name, value, owner in (
        ("--percentile", percentile, RangeMethod.PERCENTILE),
        ("--global-range", global_range, RangeMethod.GLOBAL),
    ):
        if value is not None and method is not owner:
            raise CodesignError.of(
                f"{name} means nothing with --ranges {method}", help=f"add --ranges {owner}"
            )
    try:
        return replace(
            default,
            scheme=scheme,
            method=method,
            percentile=default.percentile if percentile is None else percentile,
            global_range=global_range,
            power_of_two=power_of_two,
            per_channel=not per_tensor,
        )
    except ValueError as error:
        raise CodesignError.of(f"{error}") from error
