"""The laws of passes: every one keeps answers and types, and does nothing the second time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, Pass, PassContext
from codesign.compiler.pipelines import LEVELS, PASSES, optimize
from codesign.diagnostics import CodesignError
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import parts
from codesign.ir.relay.types import UNKNOWN, TensorType, Type, TypeCall, TypeVar
from codesign.ir.relay.wellformed import check_module
from experiments.laws.answers import Verdict, answer, compare
from experiments.laws.program import Program

GROWING: Final = frozenset({"fuse-ops", "partial-evaluate"})
"""Passes that may do more the second time: their result is no form that they read."""

ROUNDING: Final = frozenset({"to-mixed-precision"})
"""Passes that change answers by more than rounding does, as they say: types alone are judged."""

REFUSING: Final = frozenset({"defunctionalize"})
"""Passes that say which programs they do not take."""


@final
@dataclass(frozen=True, slots=True)
class Breach:
    """A law that does not hold: by which pass or level, and how."""

    by: str
    law: str
    detail: str = ""


@final
@dataclass(frozen=True, slots=True)
class Judged:
    """What one program showed."""

    breaches: tuple[Breach, ...]
    verdicts: Mapping[str, Verdict]


def judge(program: Program, names: tuple[str, ...] | None = None) -> Judged:
    """Return what the passes of these names and, where none are named, the levels do to it."""
    return _Judge(program).judged(names)


@final
class _Judge:
    """One program, what it answers, and what preparing it for passes made of it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._wanted = answer(program.module, program.args)
        self._type = infer_types(program.module)[program.module.main]
        self._prepared: dict[frozenset[Form], Module] = {}
        self._breaches: list[Breach] = []
        self._verdicts: dict[str, Verdict] = {}

    def judged(self, names: tuple[str, ...] | None) -> Judged:
        for name in PASSES if names is None else names:
            self._judge_pass(name)
        for level in range(len(LEVELS)) if names is None else ():
            self._judge_level(level)
        return Judged(tuple(self._breaches), self._verdicts)

    def _breach(self, by: str, law: str, detail: str = "") -> None:
        self._breaches.append(Breach(by, law, detail))

    def _judge_pass(self, name: str) -> None:
        each: Pass = PASSES[name]()
        try:
            before = self._in_forms(each.requires)
            after = each.run(before, PassContext())
        except CodesignError as error:
            if name not in REFUSING:
                self._breach(name, "refused", str(error))
            return
        is_legal = self._judge_result(name, after, is_new=after is not before)
        if is_legal and name not in GROWING and after is not before:
            again = each.run(after, PassContext())
            if again is not after and not is_equal_module(again, after):
                self._breach(name, "does more the second time")

    def _in_forms(self, forms: frozenset[Form]) -> Module:
        if forms not in self._prepared:
            self._prepared[forms] = prepared(self._program.module, forms)
        return self._prepared[forms]

    def _judge_level(self, level: int) -> None:
        name = f"O{level}"
        try:
            after = optimize(self._program.module, level)
        except CodesignError as error:
            self._breach(name, "refused", str(error))
            return
        self._judge_result(name, after, is_new=after is not self._program.module)

    def _judge_result(self, name: str, after: Module, *, is_new: bool) -> bool:
        """Compare what a pass made; return whether it is a legal module."""
        self._verdicts[name] = Verdict.SAME
        if not is_new:
            return True
        try:
            check_module(after)
            result = infer_types(after)[after.main]
        except CodesignError as error:
            self._breach(name, "the result is no legal module", str(error))
            return False
        if not is_as_known(self._type, result):
            self._breach(name, "main's type changed")
            return False
        if name in ROUNDING:
            self._verdicts[name] = Verdict.UNSTABLE
            return True
        found = answer(after, self._program.args)
        verdict = compare(self._wanted, found, self._program.module, self._program.args)
        self._verdicts[name] = verdict
        if verdict is Verdict.DIFFERENT:
            self._breach(name, "the answer changed")
        return True


def is_as_known(before: Type, after: Type) -> bool:
    """Return whether types are equal but for lengths that are known after and were not before."""
    match before, after:
        case TensorType(shape, dtype), TensorType(other, same):
            return (
                dtype is same
                and len(shape) == len(other)
                and all(old is UNKNOWN or old == new for old, new in zip(shape, other, strict=True))
            )
        case (TypeCall(a), TypeCall(b)) if a != b:
            return False
        case (TypeVar(), TypeVar()):
            return before == after
        case _:
            below = parts(before), parts(after)
            return (
                type(before) is type(after)
                and len(below[0]) == len(below[1])
                and all(map(is_as_known, *below))
            )


def prepared(module: Module, forms: frozenset[Form]) -> Module:
    """Return the module after the first passes of the table that make what a pass needs."""
    for form in sorted(forms - {Form.TYPED}):
        maker = next(each for each in PASSES.values() if form in each.ensures)
        module = maker().run(prepared(module, maker.requires - {form}), PassContext())
    return module
