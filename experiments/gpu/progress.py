"""What is known so far, on the screen and in a file: a run may be cut off at any time."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import final

from experiments.rows.measurement import CONSOLE


@final
class Progress:
    """Prints each result as it comes and rewrites the file at once; knows how much time is left."""

    def __init__(self, path: Path, limit_s: float) -> None:
        self._path = path
        self._end = time.monotonic() + limit_s
        self.results: dict[str, Mapping[str, float | int | str]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def left_s(self) -> float:
        """Seconds until the run is to end."""
        return self._end - time.monotonic()

    def add(self, name: str, facts: Mapping[str, float | int | str]) -> None:
        """Tell one result."""
        self.results[name] = facts
        shown = ", ".join(
            f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}"
            for key, value in facts.items()
        )
        CONSOLE.print(f"{name}: {shown} ({self.left_s:.0f} s left)")
        self._path.write_text(json.dumps(self.results, indent=1), encoding="utf-8")
