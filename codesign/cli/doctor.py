"""`codesign doctor`: what is here, what is missing, who needs it."""

from __future__ import annotations

import json

from rich.table import Table

from codesign.cli.console import output
from codesign.cli.options import Json
from codesign.cli.tools import TOOLS, Tool


def doctor(*, as_json: Json = False) -> int:
    """List the tools with versions; exit 1 only where a required one is missing.

    Example: codesign doctor
    """
    found = [(tool, tool.version()) for tool in TOOLS]
    if as_json:
        rows = [
            {
                "name": tool.name,
                "version": version,
                "required": tool.is_required,
                "needed_by": tool.needed_by,
                "how_to_get": tool.how_to_get,
            }
            for tool, version in found
        ]
        print(json.dumps({"tools": rows}, indent=2))
    else:
        output().print(_table(found))
    return int(any(version is None and tool.is_required for tool, version in found))


def _table(found: list[tuple[Tool, str | None]]) -> Table:
    table = Table("tool", "version", "needed by", "how to get it", box=None)
    for tool, version in found:
        missing = "missing" if tool.is_required else "missing (optional)"
        how = tool.how_to_get if version is None else ""
        table.add_row(tool.name, version or missing, tool.needed_by, how)
    return table
