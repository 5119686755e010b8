"""`codesign optimize`: a module before and after passes, with the time of each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from codesign.cli.console import output, progress
from codesign.cli.modules import Level, ModuleArgument, PassesText, Verify, relay_module
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import PassManager, PassRecord, write_to
from codesign.compiler.pipelines import pipeline
from codesign.diagnostics import CodesignError
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.wellformed import check_module

Dump = Annotated[
    Path | None,
    typer.Option(
        "--dump", help="Folder that gets 00-input.relay, 01-<pass>.relay, ….", show_default=False
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Write the Relay text to this file.")]
Times = Annotated[bool, typer.Option("--times", help="Show how long each pass took.")]


def optimize_command(
    model: ModuleArgument,
    *,
    level: Level = 2,
    passes: PassesText = None,
    verify: Verify = False,
    dump: Dump = None,
    times: Times = False,
    out: Out = None,
) -> int:
    """Run passes on a Relay module and print what they make of it.

    Example: codesign optimize model.relay --passes "to-a-normal-form,partial-evaluate(fuel=100)"
    """
    chosen = pipeline(level, passes)
    module = relay_module(model)
    check_module(module)
    infer_types(module)
    manager = PassManager(verify=verify, observe=None if dump is None else write_to(dump))
    text = print_module(manager.run(module, chosen))
    if out is None:
        output().print(text, markup=False, soft_wrap=True, end="")
    else:
        _write(out, text)
    if times:
        progress().print(_table(manager.records))
    return 0


def _write(out: Path, text: str) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CodesignError.of(f"cannot write {str(out)!r}", found=str(error)) from None


def _table(records: list[PassRecord]) -> Table:
    table = Table("pass", "ms", "changed", box=None)
    for each in records:
        table.add_row(each.name, f"{each.time_s * 1e3:.2f}", "yes" if each.changed else "no")
    table.add_row("all", f"{sum(each.time_s for each in records) * 1e3:.2f}", "")
    return table
