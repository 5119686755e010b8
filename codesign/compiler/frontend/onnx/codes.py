"""Integers that stand for numbers in an ONNX graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from codesign.dtypes import Array
from codesign.ir.relay.expr import Expr


@final
@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Numbers `(codes - zero_point) * scale`.

    `scale`, float32, and `zero_point` are one number, or one for each place of `axis`.
    """

    codes: Expr
    scale: Array
    zero_point: Array
    axis: int | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether there is one scale and one zero point."""
        return self.scale.size == self.zero_point.size == 1

    def moved(self, codes: Expr, axis: int | None) -> Codes:
        """Return the same numbers in another place: other codes, and where their channels are."""
        return replace(self, codes=codes, axis=axis)
