"""`codesign bisect`: the first pass that changes what a module answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from codesign.cli.console import output
from codesign.cli.inputs import read_inputs
from codesign.cli.modules import Level, ModuleArgument, PassesText, relay_module
from codesign.cli.options import InputsFile, Seed
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.bisect import Culprit, bisect, is_same_bits
from codesign.compiler.pipelines import pipeline
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.types import UNKNOWN, TensorType, Type, type_text

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
    types = _inputs(module)
    fed = _made_up(types, seed) if inputs is None else read_inputs(inputs, types)
    missing = [name for name, _ in types if name not in fed]
    if missing:
        raise CodesignError.of(f"the inputs lack {', '.join(missing)}")
    args = [fed[name] for name, _ in types]
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


def _inputs(module: Module) -> tuple[tuple[str, TensorType], ...]:
    types = infer_types(module)
    return tuple((each.name, _tensor(each.name, types[each])) for each in module.main.params)


def _tensor(name: str, type_: Type) -> TensorType:
    if not isinstance(type_, TensorType):
        what = f"parameter %{name} of main is no tensor"
        raise CodesignError.of(what, found=f"found {type_text(type_)}")
    return type_


def _made_up(inputs: tuple[tuple[str, TensorType], ...], seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    made: dict[str, Array] = {}
    for name, type_ in inputs:
        if UNKNOWN in type_.shape:
            what = f"the shape of input {name} is not known"
            raise CodesignError.of(what, found=type_text(type_), help="give --inputs")
        drawn = np.asarray(rng.standard_normal(type_.static_shape))
        is_float = type_.dtype.numpy.kind == "f"
        made[name] = (drawn if is_float else np.abs(4 * drawn)).astype(type_.dtype.numpy)
    return made


def _is_near(left: Array, right: Array, tolerance: float) -> bool:
    if tolerance == 0.0 or left.dtype.kind != "f":
        return is_same_bits(left, right)
    finite = left[np.isfinite(left)]
    greatest = float(np.abs(finite).max(initial=0.0))
    return bool(np.allclose(left, right, rtol=0.0, atol=tolerance * greatest, equal_nan=True))
