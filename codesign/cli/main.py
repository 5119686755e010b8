"""The command line: finds the command, turns mistakes into text and an exit code.

Exit codes: 0 done; 1 the user's mistake in what was given, or a check that failed; 2 wrong usage
of the command line; 3 a fault of this program.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Final

import typer

from codesign.cli.bisect import bisect_command
from codesign.cli.compare import compare
from codesign.cli.compile import compile_command
from codesign.cli.doctor import doctor
from codesign.cli.optimize import optimize_command
from codesign.cli.quantize import quantize_command
from codesign.cli.rtl import rtl
from codesign.cli.run import run
from codesign.cli.sweep import sweep
from codesign.cli.trace import trace
from codesign.diagnostics import CodesignError

INTERNAL_ERROR: Final = 3

app = typer.Typer(
    name="codesign",
    help="A tensor accelerator and its compiler from one configuration: compile a network, run it "
    "on the CPU, on the simulators and on the circuit itself, and compare.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _exiting(command: Callable[..., int]) -> Callable[..., None]:
    """Return a command that ends the process with its result, which typer would drop."""

    @functools.wraps(command)
    def exiting(*args: object, **options: object) -> None:
        raise typer.Exit(command(*args, **options))

    return exiting


app.command("run")(_exiting(run))
app.command("compare")(_exiting(compare))
app.command("compile")(_exiting(compile_command))
app.command("optimize")(_exiting(optimize_command))
app.command("quantize")(_exiting(quantize_command))
app.command("bisect")(_exiting(bisect_command))
app.command("rtl")(_exiting(rtl))
app.command("sweep")(_exiting(sweep))
app.command("trace")(_exiting(trace))
app.command("doctor")(_exiting(doctor))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code; `arguments` default to the process's."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="codesign")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except CodesignError as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:
        print(_internal(error), file=sys.stderr)
        return INTERNAL_ERROR
    return 0


def _internal(error: Exception) -> str:
    if "CODESIGN_TRACEBACK" in os.environ:
        return traceback.format_exc()
    return (
        f"internal error: {type(error).__name__}: {error}\n"
        "help: this is a fault of codesign, not yours; set CODESIGN_TRACEBACK=1 to see where"
    )


if __name__ == "__main__":
    sys.exit(main())
