"""`codesign bisect`: the first pass that changes what a module answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from codesign.cli.console import output
from codesign.cli.modules import (
    Level,
    ModuleArgument,
    PassesText,
    module_inputs,
    relay_module,
)
from codesign.cli.options import InputsFile, Seed
from codesign.compiler.bisect import Culprit, bisect, is_same_bits
from codesign.compiler.pipelines import pipeline
from codesign.dtypes import Array
from codesign.ir.relay.printer import print_module

Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        min=0.0,
        help="Difference of floating-point elements that counts as none, relative to the greatest.",
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Folder for before.relay and after.relay.")]


def bisect_command(
    model: ModuleArgument,
    *,
    level: Level = 2,
    passes: PassesText = None,
    inputs: InputsFile = None,
    seed: Seed = 0,
    tolerance: Tolerance = 0.0,
    out: Out = Path("build/bisect"),
) -> int:
    """Name the first pass after which main answers otherwise than as written; exit 1 if one does.

    Example: codesign bisect model.relay --level 4 --tolerance 1e-5
    """
    chosen = pipeline(level, passes)
    module = relay_module(model)
    fed = module_inputs(module, inputs, seed)
    args = [fed[param.name] for param in module.main.params]
    found = bisect(module, chosen, args, is_same=lambda a, b: _is_near(a, b, tolerance))
    if found is None:
        output().print(f"none of {len(chosen)} passes changes the answer")
        return 0
    _report(found, out)
    return 1


def _report(found: Culprit, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, module in (("before", found.before), ("after", found.after)):
        (out / f"{name}.relay").write_text(print_module(module), encoding="utf-8")
    output().print(f"pass {found.index}, {found.name}, changes the answer", markup=False)
    if found.refused:
        output().print(found.refused, markup=False)
    output().print(f"see {out / 'before.relay'} and {out / 'after.relay'}", markup=False)


def _is_near(left: Array, right: Array, tolerance: float) -> bool:
    if tolerance == 0.0 or left.dtype.kind != "f":
        return is_same_bits(left, right)
    finite = left[np.isfinite(left)]
    greatest = float(np.abs(finite).max(initial=0.0))
    return bool(np.allclose(left, right, rtol=0.0, atol=tolerance * greatest, equal_nan=True))
