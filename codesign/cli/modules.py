"""Relay modules as commands take them, and the options that choose passes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.pipelines import LEVELS
from codesign.diagnostics import CodesignError
from codesign.ir.relay.module import Module
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


def relay_module(argument: str) -> Module:
    """Return the module of Relay text, of an ONNX file or of a network's name.

    Raises
    ------
    CodesignError
        There is no such file or network, or it cannot be read.
    """
    if not argument.endswith(".relay"):
        return load(argument).module
    try:
        text = Path(argument).read_text(encoding="utf-8")
    except OSError as error:
        raise CodesignError.of(f"cannot read {argument!r}", found=str(error)) from None
    except UnicodeDecodeError:
        raise CodesignError.of(f"{argument!r} is no text in UTF-8") from None
    return parse_module(text, argument, imports=prelude())
