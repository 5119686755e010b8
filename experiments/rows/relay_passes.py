"""relay-linear: how compile time grows when a program doubles.

Four families: a chain of operators, lets in lets, diamonds (each value is used twice), functions
that match. Each is compiled for the CPU at the highest level: type inference, every pass, native
code. The figure is the worst ratio of times of a program and of one half as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np

from codesign.compiler.driver import compile as compile_module
from codesign.compiler.pipelines import LEVELS
from codesign.dtypes import DType
from codesign.ir.relay.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternVar,
    Var,
)
from codesign.ir.relay.module import ConstructorDefinition, Module, TypeDefinition
from codesign.ir.relay.types import TensorType, TypeCall
from codesign.ops.table import call
from experiments.rows.measurement import CONSOLE, Measurement

SIZES: Final = (500, 1000, 2000)
"""Operators of the programs that are compiled, each twice the one before."""

ROUNDS: Final = 5
"""Times that each program is compiled, all sizes in turn; the least time of each counts."""

_SCALAR: Final = TensorType((), DType.FLOAT32)


def _number(value: float) -> Constant:
    return Constant(np.asarray(value, np.float32))


def operator_chain(size: int) -> Module:
    """Return `tanh(… tanh(x) * 0.5 …)`."""
    x = Var("x", _SCALAR)
    body: Expr = x
    for index in range(size):
        body = call("tanh", body) if index % 2 else call("multiply", body, _number(0.5))
    return Module({"main": Function((x,), body)})


def deep_lets(size: int) -> Module:
    """Return lets in lets, each of the variable before."""
    x = Var("x", _SCALAR)
    variables = [Var(f"v{index}") for index in range(size)]
    body: Expr = variables[-1]
    for before, var in zip([x, *variables][size - 1 :: -1], reversed(variables), strict=True):
        body = Let(var, call("multiply", before, _number(0.5)), body)
    return Module({"main": Function((x,), body)})


def diamonds(size: int) -> Module:
    """Return a value that uses the one before twice: as a tree it would have 2**size leaves."""
    x = Var("x", _SCALAR)
    body: Expr = x
    for index in range(size):
        body = call("multiply" if index % 2 else "add", body, body)
    return Module({"main": Function((x,), body)})


def matching_functions(size: int) -> Module:
    """Return size / 8 functions that match an option, and a main that calls all of them."""
    option = TypeDefinition(
        "Option",
        (),
        (ConstructorDefinition("Some", (_SCALAR,)), ConstructorDefinition("None")),
    )
    x = Var("x", _SCALAR)
    body: Expr = x
    functions: dict[str, Function] = {}
    for index in range(size // 8):
        functions[f"f{index}"] = _matching(index)
        some = Call(Constructor("Some"), (body,))
        value = If(call("less", body, _number(3)), some, Call(Constructor("None"), ()))
        body = call("add", body, Call(GlobalVar(f"f{index}"), (value,)))
    return Module({"main": Function((x,), body, _SCALAR), **functions}, {"Option": option})


def _matching(index: int) -> Function:
    param, inside = Var("o", TypeCall("Option")), Var("k")
    clauses = (
        Clause(
            PatternConstructor("Some", (PatternVar(inside),)),
            call("multiply", inside, _number(1 / (index + 2))),
        ),
        Clause(PatternConstructor("None"), _number(0)),
    )
    return Function((param,), Match(param, clauses), _SCALAR)


FAMILIES: Final[Mapping[str, Callable[[int], Module]]] = MappingProxyType(
    {
        "operator chain": operator_chain,
        "lets in lets": deep_lets,
        "diamonds": diamonds,
        "functions that match": matching_functions,
    }
)
"""How a program of a size is made."""


def relay_linear(sizes: tuple[int, ...] = SIZES, rounds: int = ROUNDS) -> Measurement:
    """Return the worst growth of compile time, in CPU seconds, per doubling."""
    worst = 0.0
    for name, make in FAMILIES.items():
        modules = [make(size) for size in sizes]
        rounds_of = [[_compile_time_s(module) for module in modules] for _ in range(rounds)]
        times = [min(of_size) for of_size in zip(*rounds_of, strict=True)]
        growths = [long / short for short, long in pairwise(times)]
        shown = ", ".join(f"{each:.3f} s" for each in times)
        CONSOLE.print(
            f"{name}, {sizes[0]} to {sizes[-1]}: {shown}; growth at most {max(growths):.2f}"
        )
        worst = max(worst, *growths)
    return Measurement(value=worst, unit="times the time per doubling", digits=2)


def _compile_time_s(module: Module) -> float:
    start = time.process_time()
    compile_module(module, target="cpu", level=len(LEVELS) - 1)
    return time.process_time() - start
