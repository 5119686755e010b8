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
    return _judged(wanted, found, moved)


def is_same(left: Answer, right: Answer) -> bool:
    """Return whether answers are equal; a NaN equals any NaN, and -0 equals 0."""
    waiting = [(left, right)]
    while waiting:
        match waiting.pop():
            case (tuple() as mine, tuple() as others) if len(mine) == len(others):
                waiting.extend(zip(mine, others, strict=True))
            case (np.ndarray() as mine, np.ndarray() as others) if _same_tensor(mine, others):
                pass
            case (Refused() as mine, Refused() as others) if mine == others:
                pass
            case _:
                return False
    return True


def _same_tensor(left: Array, right: Array) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))


def _judged(wanted: Answer, found: Answer, moved: Sequence[Answer]) -> Verdict:
    """Return the worst verdict over the parts that moved runs leave as they are."""
    verdict = Verdict.SAME
    waiting: list[tuple[Answer, Answer, Sequence[Answer]]] = [(wanted, found, moved)]
    while waiting:
        mine, other, runs = waiting.pop()
        if is_same(mine, other):
            continue
        if _is_open(mine, runs):
            verdict = Verdict.UNSTABLE
        elif isinstance(mine, tuple) and isinstance(other, tuple) and len(mine) == len(other):
            waiting.extend(
                (mine[index], other[index], [_field(each, index) for each in runs])
                for index in range(len(mine))
            )
        elif not _is_near(mine, other, runs):
            return Verdict.DIFFERENT
        elif verdict is Verdict.SAME:
            verdict = Verdict.CLOSE
    return verdict


def _field(answer_: Answer, index: int) -> Answer:
    assert isinstance(answer_, tuple), "a run of the same form has the same fields"
    return answer_[index]


def _is_open(wanted: Answer, runs: Sequence[Answer]) -> bool:
    """Return whether a moved run gave another form, other integers or another constructor."""
    match wanted:
        case tuple():
            has_name = bool(wanted) and _is_name(wanted[0])
            return any(
                not isinstance(each, tuple)
                or len(each) != len(wanted)
                or (has_name and not is_same(wanted[0], each[0]))
                for each in runs
            )
        case np.ndarray() if wanted.dtype.kind == "f":
            return any(_distance(wanted, each) is None for each in runs)
        case _:
            return any(not is_same(wanted, each) for each in runs)


def _is_name(part: Answer) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind == "U"


def _is_near(wanted: Answer, found: Answer, runs: Sequence[Answer]) -> bool:
    """Return whether floating-point numbers are no farther away than a few times the moved runs."""
    far = _distance(wanted, found)
    distances = [_distance(wanted, each) for each in runs]
    reach = [each for each in distances if each is not None]
    if far is None or not reach:
        return False
    return bool(np.all(far <= _SLACK * np.max(reach, axis=0)))


def _distance(wanted: Answer, found: Answer) -> Array | None:
    """Return how far floating-point tensors are apart; None where anything else differs."""
    if not isinstance(wanted, np.ndarray) or not isinstance(found, np.ndarray):
        return None
    if wanted.dtype.kind != "f" or wanted.dtype != found.dtype or wanted.shape != found.shape:
        return None
    special = ~np.isfinite(wanted) | ~np.isfinite(found)
    if not np.array_equal(wanted[special], found[special], equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        apart = np.abs(wanted.astype(np.float64) - found.astype(np.float64))
    return np.asarray(np.where(special, 0.0, apart))
