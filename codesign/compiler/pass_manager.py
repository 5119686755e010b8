"""Runs passes in order; checks what they need, times them, and writes what they made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol, final

from codesign.compiler.analysis.infer_types import infer_types
from codesign.diagnostics import CodesignError, InternalError
from codesign.ir.relay.expr import Expr
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.wellformed import check_module


class Form(StrEnum):
    """A property of a module that passes need, make or break."""

    TYPED = "typed"
    """Every expression has a type."""
    INFERENCE = "inference"
    """No operator is left that only training tells from simpler ones."""
    A_NORMAL = "a-normal"
    """Operands are atoms, and every other value but a block's last is bound by a `let`."""
    BASIC_BLOCK = "basic-block"
    """A value that several blocks use is bound by a `let` in the one around them."""
    GRAPH = "graph"
    """Pure values are shared as nodes; `let` binds only what has an order or crosses a function."""
    FUSED = "fused"
    """Operators that run as one kernel stand in a Primitive function."""


@final
@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass may know beside the module; empty so far, and never the environment."""


class Pass(Protocol):
    """A pure function of the module: it neither prints nor reads the environment."""

    name: ClassVar[str]
    requires: ClassVar[frozenset[Form]]
    ensures: ClassVar[frozenset[Form]]

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the changed module, or the same one."""
        ...


@final
@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one run of a pass took, and whether it changed anything."""

    name: str
    time_s: float
    changed: bool


@final
@dataclass(slots=True, kw_only=True)
class PassManager:
    """Runs passes in order.

    `verify` infers types and checks well-formedness after each pass. `observe(index, name, module)`
    sees the module that comes in as `0, "input"` and then what each pass made. `records` grows by
    one for each pass that ran.
    """

    verify: bool = False
    observe: Callable[[int, str, Module], None] | None = None
    records: list[PassRecord] = field(default_factory=list)

    def run(
        self,
        module: Module,
        passes: Iterable[Pass],
        forms: frozenset[Form] = frozenset({Form.TYPED}),
    ) -> Module:
        """Return the module after all passes; `forms` holds for the module that comes in."""
        self._show(0, "input", module)
        for index, each in enumerate(passes, start=1):
            missing = each.requires - forms
            if missing:
                raise InternalError(
                    f"pass {each.name} requires {', '.join(sorted(missing))}; "
                    f"here only {', '.join(sorted(forms)) or 'nothing'} holds"
                )
            start = time.perf_counter()
            result = each.run(module, PassContext())
            elapsed = time.perf_counter() - start
            self.records.append(PassRecord(each.name, elapsed, result is not module))
            module, forms = result, forms | each.ensures
            if self.verify:
                check_module(module)
                infer_types(module)
            self._show(index, each.name, module)
        return module

    def _show(self, index: int, name: str, module: Module) -> None:
        if self.observe is not None:
            self.observe(index, name, module)


def write_to(folder: Path) -> Callable[[int, str, Module], None]:
    """Return an observer that writes `00-input.relay`, `01-<pass>.relay`, … into a folder.

    It raises CodesignError where the folder cannot be written to.
    """

    def observe(index: int, name: str, module: Module) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{index:02d}-{name}.relay"
            file.write_text(print_module(module), encoding="utf-8")
        except OSError as error:
            raise CodesignError.of(f"cannot dump to {str(folder)!r}", found=str(error)) from None

    return observe


def map_bodies(module: Module, transform: Callable[[Expr], Expr]) -> Module:
    """Return the module with every function's body transformed; the same one where none changed."""
    functions = {}
    for name, function in module.functions.items():
        body = transform(function.body)
        functions[name] = function if body is function.body else replace(function, body=body)
    if all(functions[name] is module.functions[name] for name in functions):
        return module
    return module.with_functions(functions)
