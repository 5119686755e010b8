"""The law of native code: it answers what the interpreter answers, and leaves nothing behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.compiler import driver
from codesign.diagnostics import CodesignError
from codesign.ir.executable.executable import NativeStep
from experiments.laws.answers import Answer, Refused, Verdict, answer, compare, plain
from experiments.laws.program import Program
from host_runtime.native import NativeFunction
from host_runtime.session import Session


@final
@dataclass(frozen=True, slots=True)
class NativeRun:
    """How native code did on one program."""

    verdict: Verdict
    live_objects: int
    detail: str = ""


def judge_native(program: Program, level: int = 2) -> NativeRun:
    """Return how the compiled program's answer compares, and how many objects it left.

    A refusal of the compiler counts as a difference: a well-typed program is to be compiled.
    """
    try:
        found, live = _run(program, level)
    except CodesignError as error:
        return NativeRun(Verdict.DIFFERENT, 0, str(error))
    wanted = answer(program.module, program.args)
    return NativeRun(compare(wanted, found, program.module, program.args), live)


def _run(program: Program, level: int) -> tuple[Answer, int]:
    executable = driver.compile(program.module, level=level)
    match executable.steps:
        case (NativeStep(kernel=kernel),):
            function = NativeFunction(kernel)
            try:
                found = plain(function(*program.args))
            except CodesignError as error:
                found = Refused(error.diagnostics[0].title_text())
            return found, function.live_objects
        case _:
            names = (port.name for port in executable.inputs)
            arrays = [each for each in program.args if isinstance(each, np.ndarray)]
            inputs = dict(zip(names, arrays, strict=True))
            outputs = Session(executable).run(inputs)
            return tuple(plain(outputs[port.name]) for port in executable.outputs), 0
