"""The table of questions."""

from __future__ import annotations

from typing import Final

from experiments.study.array_shape import answer as array_shape
from experiments.study.backends import answer as backends
from experiments.study.bandwidth import answer as bandwidth
from experiments.study.batching import answer as batching
from experiments.study.fusion import answer as fusion
from experiments.study.question import Question
from experiments.study.scratchpad_size import answer as scratchpad_size

QUESTIONS: Final[tuple[Question, ...]] = (
    batching.QUESTION,
    array_shape.QUESTION,
    scratchpad_size.QUESTION,
    bandwidth.QUESTION,
    fusion.QUESTION,
    backends.QUESTION,
)
