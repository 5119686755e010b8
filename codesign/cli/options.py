"""Arguments and options that several commands share, and what they mean."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from codesign.accel.config import AccelConfig
from codesign.accel.presets import PRESETS, preset
from codesign.compiler.partition.costs import ByCost
from codesign.diagnostics import CodesignError
from experiments.road.build import placed_by_cost
from experiments.road.devices import Say


class TargetName(StrEnum):
    """What code is made for."""

    CPU = "cpu"
    INT8 = "int8"
    GPU = "gpu"
    ACCEL = "accel"


class SimulatorName(StrEnum):
    """What runs the accelerator's program."""

    FUNCTIONAL = "functional"
    CYCLE = "cycle"
    RTL = "rtl"


ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="An ONNX file, or the name of a network that comes with the project "
        "(orientation, direction, recognition, digits, efficientnet-lite0, resnet18).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]
PresetName = Annotated[
    str | None,
    typer.Option("--preset", help=f"A named configuration: {', '.join(PRESETS)}. Default: base."),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A configuration as TOML, in place of a preset.")
]
ClockMhz = Annotated[
    int | None,
    typer.Option("--clock-mhz", help="The accelerator's clock. Default: the configuration's."),
]
PlaceByCost = Annotated[
    bool,
    typer.Option(
        "--place-by-cost",
        help="Leave layers to this host where the network takes less time so, copies included. "
        "Default: all that the accelerator can run is there.",
    ),
]
Target = Annotated[
    TargetName,
    typer.Option(
        "--target",
        help="cpu: floating point as imported; int8: quantized, on the CPU; "
        "gpu: floating point, on an NVIDIA GPU; "
        "accel: quantized, on the accelerator.",
    ),
]
Simulator = Annotated[
    SimulatorName,
    typer.Option(
        "--sim", help="Of the accelerator: functional (values), cycle (and cycles), rtl (circuit)."
    ),
]
InputsFile = Annotated[
    Path | None,
    typer.Option(
        "--inputs",
        help="Inputs as .npy (the only input) or .npz (one array to an input's name). "
        "Default: samples of a named network, else numbers from --seed.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of made-up inputs.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=D,D,…",
        help="Shape of an input whose dimensions the file leaves open; may be repeated.",
    ),
]


def configuration(name: str | None, file: Path | None, clock_mhz: int | None = None) -> AccelConfig:
    """Return the configuration that `--preset` or `--config`, and `--clock-mhz`, ask for.

    Raises
    ------
    CodesignError
        Both are given, or what is given is not a legal configuration.
    """
    if name is not None and file is not None:
        raise CodesignError.of(
            "--preset and --config exclude each other", found=f"--preset {name} --config {file}"
        )
    chosen = preset(name or "base") if file is None else AccelConfig.from_file(file)
    return chosen if clock_mhz is None else replace(chosen, clock_mhz=clock_mhz)


def placement(target: TargetName, config: AccelConfig, say: Say, *, by_cost: bool) -> ByCost | None:
    """Return the placement that `--place-by-cost` asks for; it measures this machine.

    Raises
    ------
    CodesignError
        The option is given and the target is not the accelerator.
    """
    if not by_cost:
        return None
    if target is not TargetName.ACCEL:
        raise CodesignError.of(
            "--place-by-cost is for --target accel",
            found=f"--target {target}",
            help="leave it out",
        )
    return placed_by_cost(config, say)


def shapes(given: list[str] | None) -> dict[str, tuple[int, ...]]:
    """Return `--shape x=1,3,224,224` options as a mapping.

    Raises
    ------
    CodesignError
        An option is not of that form.
    """
    result = {}
    for text in given or ():
        name, _, dimensions = text.partition("=")
        numbers = dimensions.split(",")
        if not name or not all(number.isdigit() for number in numbers):
            raise CodesignError.of(
                f"--shape {text!r} is not a shape", help="write --shape x=1,3,224,224"
            )
        result[name] = tuple(int(number) for number in numbers)
    return result
