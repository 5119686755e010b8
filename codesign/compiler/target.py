"""What code is made for."""

from __future__ import annotations

from enum import StrEnum

from codesign.diagnostics import CodesignError


class Target(StrEnum):
    """Where a network runs: on the host, on a GPU, or on the accelerator as far as it can."""

    CPU = "cpu"
    GPU = "gpu"
    ACCEL = "accel"

    @classmethod
    def named(cls, name: str) -> Target:
        """Return the target of a name; raise CodesignError where there is none."""
        try:
            return cls(name)
        except ValueError:
            raise CodesignError.of(
                f"there is no target {name!r}", found=f"the targets are {', '.join(cls)}"
            ) from None
