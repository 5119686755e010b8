"""Options of commands that compile for a GPU, and the choice that they mean."""

from __future__ import annotations

from typing import Annotated

import typer

from codesign.cli.options import TargetName
from codesign.compiler.backends.gpu.device import DEVICES, PRECISIONS
from codesign.diagnostics import CodesignError
from experiments.road.build import GpuChoice

Architecture = Annotated[
    str | None,
    typer.Option(
        "--gpu", help=f"Oldest GPU that is to run it: {', '.join(DEVICES)}. Default: sm_80."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        help=f"What a GPU multiplies float32 in: {', '.join(PRECISIONS)}. Default: float32.",
    ),
]
OnHost = Annotated[
    list[str] | None,
    typer.Option(
        "--on-host", metavar="OPERATOR", help="Operator that a GPU leaves to the CPU; repeatable."
    ),
]


def gpu_choice(
    target: TargetName,
    *,
    architecture: str | None,
    precision: str | None,
    on_host: list[str] | None,
) -> GpuChoice:
    """Return what the options ask for.

    Raises
    ------
    CodesignError
        An option is given and the target is no GPU.
    """
    given = {"--gpu": architecture, "--precision": precision, "--on-host": on_host}
    for option, value in given.items():
        if value and target is not TargetName.GPU:
            raise CodesignError.of(
                f"{option} is for --target gpu", found=f"--target {target}", help="leave it out"
            )
    default = GpuChoice()
    return GpuChoice(
        architecture=architecture or default.architecture,
        precision=precision or default.precision,
        on_host=tuple(on_host or ()),
    )
