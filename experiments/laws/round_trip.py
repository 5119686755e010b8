"""The law of the text: parse(print(m)) = m, and the same text again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.diagnostics import CodesignError
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.expr import Call, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module
from codesign.ops.table import OPERATORS
from experiments.laws.attributes import variations
from experiments.laws.grammar import CONSTRUCTS
from experiments.laws.program import random_program

HEAD: Final = '#[version = "0.0.5"]\n'


def survives(module: Module) -> bool:
    """Return whether the printed module is read back as an equal one that prints the same."""
    text = print_module(module)
    try:
        read = parse_module(text)
    except CodesignError:
        return False
    return is_equal_module(module, read) and print_module(read) == text


def constructs() -> Iterator[tuple[str, Module]]:
    """Yield a module for each construct of the grammar."""
    for name, text in CONSTRUCTS.items():
        yield name, parse_module(HEAD + text)
    yield "prelude", prelude()


def operators() -> Iterator[tuple[str, Module]]:
    """Yield a module for each operator with each attribute at each value that is tried."""
    for name, record in OPERATORS.items():
        for attribute, attrs in variations(record):
            params = tuple(Var(each) for each in ("data", "other"))
            call = Call(OpRef(name), params, attrs)
            label = f"{name} {attribute}".rstrip()
            yield label, Module({"main": Function(params, call)})


def attribute_count() -> int:
    """Return how many attributes all operators have together."""
    return sum(
        len(fields(record.attrs)) for record in OPERATORS.values() if record.attrs is not None
    )


def programs(count: int) -> Iterator[tuple[str, Module]]:
    """Yield random programs."""
    for seed in range(count):
        yield f"program {seed}", random_program(seed).module
