"""The table of questions."""

from __future__ import annotations

from typing import Final

from experiments.study.array_shape import answer as array_shape
from experiments.study.backends import answer as backends
from experiments.study.bandwidth import answer as bandwidth
from experiments.study.batching import answer as batching
from experiments.study.fusion import answer as fusion
from experiments.study.host_operators import answer as host_operators
from experiments.study.on_chip import answer as on_chip
from experiments.study.question import OwnQuestion, Question
from experiments.study.scratchpad_size import answer as scratchpad_size

QUESTIONS: Final[tuple[Question, ...]] = (
    batching.QUESTION,
    array_shape.QUESTION,
    scratchpad_size.QUESTION,
    bandwidth.QUESTION,
    fusion.QUESTION,
    backends.QUESTION,
)

OWN_QUESTIONS: Final[tuple[OwnQuestion, ...]] = (host_operators.QUESTION, on_chip.QUESTION)
"""Those whose points are not a sweep's."""
