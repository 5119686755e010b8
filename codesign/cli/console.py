"""Where commands print: results on standard output, progress on standard error."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich.console import Console


def output() -> Console:
    """Return the console of results: plain text where it is not a terminal."""
    return _console(sys.stdout)


def progress() -> Console:
    """Return the console of progress and notes."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    # A pipe has no width; 80 columns would fold the tables.
    width = None if stream.isatty() or "COLUMNS" in os.environ else 160
    # What is printed may hold brackets: names of layers, shapes, extras of packages.
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)
