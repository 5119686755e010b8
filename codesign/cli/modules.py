"""Relay modules as commands take them, their inputs, and the options that choose passes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from codesign.cli.inputs import read_inputs
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.pipelines import LEVELS
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import UNKNOWN, TensorType, Type, type_text
from experiments.road.subject import load

ModuleArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Relay text (a .relay file, which may use the prelude), an ONNX file, or the name of "
        "a network that comes with the project.",
    ),
]
Level = Annotated[
    int, typer.Option("--level", min=0, max=len(LEVELS) - 1, help="Optimization level.")
]
PassesText = Annotated[
    str | None,
    typer.Option(
        "--passes",
        metavar="PASS,PASS(NAME=VALUE),…",
        help="Passes in the place of a level's: fold-constant,fuse-ops(max_depth=8),O1.",
    ),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Check form and types of the module after each pass.")
]


def is_relay_text(argument: str) -> bool:
    """Return whether an argument names a file of Relay text."""
    return argument.endswith(".relay")


def relay_module(argument: str) -> Module:
    """Return the module of Relay text, of an ONNX file or of a network's name.

    Raises
    ------
    CodesignError
        There is no such file or network, or it cannot be read.
    """
    if not is_relay_text(argument):
        return load(argument).module
    try:
        text = Path(argument).read_text(encoding="utf-8")
    except OSError as error:
        raise CodesignError.of(f"cannot read {argument!r}", found=str(error)) from None
    except UnicodeDecodeError:
        raise CodesignError.of(f"{argument!r} is no text in UTF-8") from None
    return parse_module(text, argument, imports=prelude())


def module_inputs(module: Module, file: Path | None, seed: int) -> dict[str, Array]:
    """Return a value of every parameter of main: from a file, else numbers made from a seed.

    Raises
    ------
    CodesignError
        A parameter is no tensor, or has no value: its shape is not known, or the file lacks it.
    """
    found = infer_types(module)
    types = tuple((each.name, _tensor(each.name, found[each])) for each in module.main.params)
    fed = _made_up(types, seed) if file is None else read_inputs(file, types)
    missing = [name for name, _ in types if name not in fed]
    if missing:
        raise CodesignError.of(f"the inputs lack {', '.join(missing)}")
    return fed


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
