"""What the functions of one program share while they are written: names, constructors, sites."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from codesign.diagnostics import Span
from codesign.dtypes import Array
from codesign.ir.control.program import Block, Function, MakeData, Return, Site, Value
from codesign.ir.relay import expr as relay
from codesign.ir.relay.expr import Expr
from codesign.ir.relay.module import Module
from codesign.ir.relay.type_algebra import type_leaves
from codesign.ir.relay.types import UNKNOWN, Length, TensorType, Type, type_text


@final
@dataclass(frozen=True, slots=True, eq=False)
class FunctionToWrite:
    """A function literal, the variables that its closure keeps, and those that mean itself."""

    name: str
    literal: relay.Function
    captured: tuple[relay.Var, ...] = ()
    own_names: frozenset[relay.Var] = frozenset()

    @property
    def is_static(self) -> bool:
        """Whether one closure is enough: it keeps nothing."""
        return not self.captured


@final
class ModuleWriter:
    """Hands out names and numbers; `waiting` are functions that somebody needs."""

    def __init__(self, module: Module, types: Mapping[Expr, Type]) -> None:
        self.module = module
        self.types = types
        self.waiting: deque[FunctionToWrite] = deque()
        self.sites: list[Site] = []
        self.static_names: dict[relay.Var, str] = {}
        self.literals: dict[relay.Var, Array] = {}
        self.constructors = module.constructors()
        self.constructor_names = tuple(self.constructors)
        self.tags = {name: tag for tag, name in enumerate(self.constructor_names)}
        self.has_unknown = any(map(_has_unknown, types.values()))
        self._globals: set[str] = set()
        self._literals: dict[relay.Function, FunctionToWrite] = {}
        self._constructors: dict[str, str] = {}

    def request_global(self, name: str) -> str:
        """Return the name of the control function of a global one."""
        if name not in self._globals:
            self._globals.add(name)
            self.waiting.append(FunctionToWrite(name, self.module.functions[name]))
        return name

    def request_literal(
        self,
        literal: relay.Function,
        outer_name: str,
        outer: tuple[relay.Var, ...],
        free: tuple[relay.Var, ...],
    ) -> FunctionToWrite:
        """Return the function of a literal; of its free variables `outer` have values here."""
        if literal not in self._literals:
            kept = tuple(
                var for var in outer if var not in self.literals and var not in self.static_names
            )
            own = frozenset(var for var in free if var not in outer)
            name = f"{outer_name}.{len(self._literals)}"
            wanted = FunctionToWrite(name, literal, kept, own)
            if wanted.is_static:
                self.static_names.update(dict.fromkeys(own, name))
            self._literals[literal] = wanted
            self.waiting.append(wanted)
        return self._literals[literal]

    def request_constructor(self, name: str) -> str:
        """Return the name of the function that calls a constructor."""
        return self._constructors.setdefault(name, f"constructor.{name}")

    def constructor_functions(self) -> list[Function]:
        """Return the functions of the constructors that are used as values."""
        return [self._constructor_function(name) for name in self._constructors]

    def _constructor_function(self, name: str) -> Function:
        _, definition = self.constructors[name]
        params = tuple(Value(f"field{place}") for place in range(len(definition.fields)))
        result = Value("d")
        block = Block(0, (), (MakeData(result, self.tags[name], params),), Return(result))
        return Function(self._constructors[name], None, params, (block,))

    def site(self, site: Site) -> int:
        """Return the number of a mistake that can happen at run time; numbers begin at 1."""
        self.sites.append(site)
        return len(self.sites)

    def site_of_annotation(self, var: relay.Var, expected: TensorType) -> int:
        """Return the number of the mistake that a value does not fit its annotation."""
        return self.site(
            Site(f"%{var.name} does not fit", f"expected {type_text(expected)}", span=var.span)
        )

    def site_of_length(self, length: Length, one: str, other: str, span: Span | None) -> int:
        """Return the number of the mistake that a name is two lengths."""
        found = f"found one in %{one} and another one in %{other}"
        return self.site(Site(f"{length.name} is two lengths", found, span=span))


def _has_unknown(type_: Type) -> bool:
    return any(
        isinstance(leaf, TensorType) and UNKNOWN in leaf.shape for leaf in type_leaves(type_)
    )
