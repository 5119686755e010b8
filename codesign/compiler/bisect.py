"""bisect: the first pass that changes a program's answer.

The interpreter, which is the meaning, answers for the module before the first pass and after each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import Pass, PassManager
from codesign.compiler.values import Cell, DataValue, Result
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.module import Module

Comparison: TypeAlias = Callable[[Array, Array], bool]
"""Whether two tensors of one shape and element type count as the same."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Culprit:
    """The pass that changes the answer: its place in the pipeline from 1, and what it did.

    Where a module has no answer, `refused` is why; the other answer is None then.
    """

    index: int
    name: str
    before: Module
    after: Module
    answer_before: Result | None
    answer_after: Result | None
    refused: str = ""


def bisect(
    module: Module,
    passes: Iterable[Pass],
    args: Sequence[Result],
    *,
    is_same: Comparison | None = None,
) -> Culprit | None:
    """Return the first pass after which main answers otherwise, None where none does.

    `is_same` compares tensors, bit for bit where it is not given (any NaN equals any). An error of
    main that a pass takes away is no change; one that it brings is.

    Examples
    --------
    >>> from codesign.compiler.frontend.relay_parser import parse_module
    >>> from codesign.compiler.pipelines import pipeline
    >>> module = parse_module('#[version = "0.0.5"] def @main(%x: int32) { %x + (1 + 2) }')
    >>> bisect(module, pipeline(2), [np.asarray(4, np.int32)]) is None
    True
    """
    stages: list[tuple[int, str, Module]] = []
    manager = PassManager(observe=lambda index, name, made: stages.append((index, name, made)))
    manager.run(module, passes)
    before, answer = module, _answer(module, args)
    for index, name, after in stages[1:]:
        if after is before:
            continue
        found = _answer(after, args)
        if not isinstance(answer, CodesignError):
            refused = str(found) if isinstance(found, CodesignError) else ""
            if isinstance(found, CodesignError):
                return Culprit(index, name, before, after, answer, None, refused)
            if not is_same_answer(answer, found, is_same or is_same_bits):
                return Culprit(index, name, before, after, answer, found)
        before, answer = after, found
    return None


def _answer(module: Module, args: Sequence[Result]) -> Result | CodesignError:
    try:
        return Interpreter(module).result_of(module.main, args)
    except CodesignError as error:
        return error


def is_same_answer(left: Result, right: Result, is_same: Comparison) -> bool:
    """Return whether answers are the same: of functions and cells only whether both are such."""
    pending = [(left, right)]
    seen: set[tuple[int, int]] = set()
    while pending:
        a, b = pending.pop()
        if (id(a), id(b)) in seen:
            continue
        seen.add((id(a), id(b)))
        match a, b:
            case np.ndarray(), np.ndarray():
                if a.dtype != b.dtype or a.shape != b.shape or not is_same(a, b):
                    return False
            case tuple(), tuple() if len(a) == len(b):
                pending.extend(zip(a, b, strict=True))
            case DataValue(name, mine), DataValue(other, others) if name == other:
                pending.extend(zip(mine, others, strict=True))
            case Cell(mine_now), Cell(other_now):
                pending.append((mine_now, other_now))
            case _:
                if type(a) is not type(b) or isinstance(a, tuple | DataValue):
                    return False
    return True


def is_same_bits(left: Array, right: Array) -> bool:
    """Return whether tensors are equal bit for bit, but that any NaN equals any."""
    if left.dtype.kind == "f":
        both = np.isnan(left) & np.isnan(right)
        return bool(np.all((left == right) & (np.signbit(left) == np.signbit(right)) | both))
    return bool(np.array_equal(left, right))
