"""What a program answers, and whether two answers are the same as `docs/numbers.md` promises.

Integers, truth values, constructors and lengths are the same or not. Floating-point numbers are
first compared bit for bit, but for the sign of a zero and the bits of a NaN. Where bits differ,
the program itself is run with every floating-point result moved by a few units in the last place:
what such moves change is not promised, and the answers may differ by as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, final

import numpy as np

from codesign.compiler.interpreter import Interpreter
from codesign.compiler.values import DataValue, Result
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.module import Module
from experiments.laws.perturb import perturbed

RUNS: Final = 8
"""How often a program is run with moved results before its answers are said to differ."""

_SLACK: Final = 8
"""Answers may differ by this many times what the moved runs showed."""


@final
@dataclass(frozen=True, slots=True)
class Refused:
    """The program was refused while it ran, for a reason."""

    reason: str


Answer: TypeAlias = "Array | tuple[Answer, ...] | Refused"
"""Tensors and tuples; a value of a data type is a tuple that begins with its constructor."""


class Verdict(Enum):
    """How two answers of one program compare."""

    SAME = "same"
    CLOSE = "within what rounding may change"
    UNSTABLE = "not promised: rounding alone changes it"
    DIFFERENT = "different"


def answer(module: Module, args: Sequence[Result]) -> Answer:
    """Return what the interpreter says that main makes of the arguments."""
    try:
        return plain(Interpreter(module).result_of(module.main, list(args)))
    except CodesignError as error:
        return Refused(error.diagnostics[0].title_text())


def plain(result: object) -> Answer:
    """Return a result as tensors and tuples."""
    match result:
        case np.ndarray() | np.generic():
            return np.asarray(result)
        case tuple():
            return tuple(map(plain, result))
        case DataValue(constructor, fields):
            return (np.asarray(constructor), *map(plain, fields))
        case _:
            raise AssertionError(f"main gives no functions and no cells, found {result!r}")


def compare(wanted: Answer, found: Answer, module: Module, args: Sequence[Result]) -> Verdict:
    """Return how an answer compares to the one of a module."""
    if is_same(wanted, found):
        return Verdict.SAME
    moved = [answer(perturbed(module, seed), args) for seed in range(RUNS)]
    spread = Spread.of(wanted, moved)
    if spread is None:
        return Verdict.UNSTABLE
    return Verdict.CLOSE if spread.allows(found) else Verdict.DIFFERENT


def is_same(left: Answer, right: Answer) -> bool:
    """Return whether answers are equal; a NaN equals any NaN, and -0 equals 0."""
    pairs = list(_leaves(left, right))
    return all(pair is not None and _same_tensor(*pair) for pair in pairs)


def _leaves(left: Answer, right: Answer) -> list[tuple[Array, Array] | None]:
    """Return the tensors of two answers in pairs; None where the answers have other forms."""
    found: list[tuple[Array, Array] | None] = []
    waiting = [(left, right)]
    while waiting:
        match waiting.pop():
            case (tuple() as mine, tuple() as others) if len(mine) == len(others):
                waiting.extend(zip(mine, others, strict=True))
            case (np.ndarray() as mine, np.ndarray() as others):
                found.append((mine, others))
            case (Refused() as mine, Refused() as others) if mine == others:
                pass
            case _:
                found.append(None)
    return found


def _same_tensor(left: Array, right: Array) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))


@final
@dataclass(frozen=True, slots=True)
class Spread:
    """An answer and, for each of its floating-point tensors, how far it may be away."""

    wanted: Answer
    reach: tuple[Array | None, ...]

    @classmethod
    def of(cls, wanted: Answer, moved: Sequence[Answer]) -> Spread | None:
        """Return the spread of moved answers; None where more than small distances changed."""
        reach: list[Array | None] | None = None
        for each in moved:
            distances = _distances(wanted, each)
            if distances is None:
                return None
            reach = distances if reach is None else [*map(_larger, reach, distances)]
        return cls(wanted, tuple(reach or ()))

    def allows(self, found: Answer) -> bool:
        """Return whether an answer is no farther away than a few times the spread."""
        distances = _distances(self.wanted, found)
        if distances is None:
            return False
        return all(
            far is None or most is None or bool(np.all(far <= _SLACK * most))
            for far, most in zip(distances, self.reach, strict=True)
        )


def _larger(left: Array | None, right: Array | None) -> Array | None:
    return None if left is None or right is None else np.maximum(left, right)


def _distances(wanted: Answer, found: Answer) -> list[Array | None] | None:
    """Return how far floating-point tensors are apart; None where anything else differs."""
    distances: list[Array | None] = []
    for pair in _leaves(wanted, found):
        if pair is None:
            return None
        left, right = pair
        if left.dtype.kind != "f":
            if not _same_tensor(left, right):
                return None
            distances.append(None)
            continue
        if left.dtype != right.dtype or left.shape != right.shape:
            return None
        special = ~np.isfinite(left) | ~np.isfinite(right)
        if not np.array_equal(left[special], right[special], equal_nan=True):
            return None
        wide = left.astype(np.float64), right.astype(np.float64)
        with np.errstate(invalid="ignore"):
            distances.append(np.where(special, 0.0, np.abs(wide[0] - wide[1])))
    return distances
