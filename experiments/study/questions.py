"""The table of questions."""

from __future__ import annotations

from typing import Final

from experiments.study.batching import answer as batching
from experiments.study.question import Question

QUESTIONS: Final[tuple[Question, ...]] = (batching.QUESTION,)
