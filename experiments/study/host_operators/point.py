"""Points of the question: the error of a way to compute rows, and its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

SOFTMAX: Final = "softmax"
LAYER_NORM: Final = "layer norm"

HOST: Final = "host"
HOST_FROM_INT8: Final = "host, from int8"
ONE_ROUND: Final = "chain, one round"
TWO_ROUNDS: Final = "chain, two rounds"
CHAINS: Final = {ONE_ROUND: 1, TWO_ROUNDS: 2}
"""Ways on the accelerator, and their rounds."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPoint:
    """How far a way's result is from that of float64 on the same real rows.

    `spread` is the deviation of logits, or how many times the widest row of a layer normalization
    is wider than the narrowest. `worst` is the greatest error of an element.
    """

    operator: str
    length: int
    spread: int
    way: str
    sqnr_db: float
    worst: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TimePoint:
    """How long a way takes for so many rows from int8 to int8.

    `time_ms` is processor time on the host, exact cycles by the clock on the accelerator. On the
    host, `moved_bytes` are those of the copies there and back, which the time does not have.
    """

    operator: str
    length: int
    rows: int
    way: str
    time_ms: float
    cycles: int | None
    moved_bytes: int
