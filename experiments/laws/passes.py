"""The laws of passes: every one keeps answers and types, and does nothing the second time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, Pass, PassContext
from codesign.compiler.pipelines import LEVELS, PASSES, optimize
from codesign.diagnostics import CodesignError
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import is_same_type
from codesign.ir.relay.wellformed import check_module
from experiments.laws.answers import Answer, Verdict, answer, compare
from experiments.laws.program import Program

GROWING: Final = frozenset({"fuse-ops"})
"""Passes that may do more the second time: their result is no form that they read."""


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
    wanted = answer(program.module, program.args)
    breaches: list[Breach] = []
    verdicts: dict[str, Verdict] = {}
    for name in PASSES if names is None else names:
        breaches.extend(_judge_pass(name, program, wanted, verdicts))
    for level in range(len(LEVELS)) if names is None else ():
        try:
            made = optimize(program.module, level)
        except CodesignError as error:
            breaches.append(Breach(f"O{level}", "refused", str(error)))
            continue
        breaches.extend(_kept(f"O{level}", program, program.module, made, wanted, verdicts))
    return Judged(tuple(breaches), verdicts)


def prepared(module: Module, forms: frozenset[Form]) -> Module:
    """Return the module after the first passes of the table that make what a pass needs."""
    for form in sorted(forms - {Form.TYPED}):
        maker = next(each for each in PASSES.values() if form in each.ensures)
        module = maker().run(prepared(module, maker.requires - {form}), PassContext())
    return module


def _judge_pass(
    name: str, program: Program, wanted: Answer, verdicts: dict[str, Verdict]
) -> Iterator[Breach]:
    each: Pass = PASSES[name]()
    try:
        module = prepared(program.module, each.requires)
        made = each.run(module, PassContext())
    except CodesignError as error:
        yield Breach(name, "refused", str(error))
        return
    yield from _kept(name, program, module, made, wanted, verdicts)
    if name not in GROWING:
        again = each.run(made, PassContext())
        if again is not made and not is_equal_module(again, made):
            yield Breach(name, "does more the second time")


def _kept(
    name: str,
    program: Program,
    before: Module,
    after: Module,
    wanted: Answer,
    verdicts: dict[str, Verdict],
) -> Iterator[Breach]:
    verdicts[name] = Verdict.SAME
    if after is program.module:
        return
    try:
        check_module(after)
        result = infer_types(after)[after.main]
    except CodesignError as error:
        yield Breach(name, "the result is no legal module", str(error))
        return
    if not is_same_type(infer_types(before)[before.main], result, {}):
        yield Breach(name, "main's type changed")
        return
    found = answer(after, program.args)
    verdict = compare(wanted, found, program.module, program.args)
    verdicts[name] = verdict
    if verdict is Verdict.DIFFERENT:
        yield Breach(name, "the answer changed")
