"""The attribute of operators that work along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from codesign.ir.relay.expr import Attrs


@final
@dataclass(frozen=True, kw_only=True)
class AxisAttrs(Attrs):
    """An axis; a negative one counts from the last."""

    axis: int = -1
