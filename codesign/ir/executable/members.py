"""Members of an executable's file, by name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from codesign.diagnostics import CodesignError


@final
@dataclass(slots=True)
class Members:
    """Bytes by name, in the order in which they were added."""

    data: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, data: bytes) -> None:
        """Add a member."""
        self.data[name] = data

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of every member."""
        return {name: hashlib.sha256(data).hexdigest() for name, data in self.data.items()}


def member(members: Mapping[str, bytes], name: str, source: str) -> bytes:
    """Return a member; refuse a file without it."""
    if name not in members:
        raise CodesignError.of(f"{source} has no member {name!r}")
    return members[name]
