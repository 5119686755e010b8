"""eliminate-common-subexpr: compute equal values once.

    add(nn.relu(%x), nn.relu(%x))
becomes
    %0 = nn.relu(%x); add(%0, %0)
and
    let %a = exp(%x); let %b = exp(%x); add(%a, %b)
becomes
    let %a = exp(%x); add(%a, %a)

Equal are calls of one operator, constructor or global function that neither reads nor writes cells,
with equal attributes and the same arguments; tuples and fields; constants by their bytes. A value
is shared with one in the same block or around it, in the same function, so that nothing is computed
where it was not.

Laws: the answer is the same bit for bit, so are the types; a second run changes nothing. Time is
linear in the nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from codesign.compiler.analysis.effects import Effect, Effects
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.pass_manager import Form, PassContext
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    Project,
    Tuple,
    pattern_variables,
)
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import ATOMS
from codesign.ir.relay.types import Type
from codesign.ir.relay.visit import children, post_order, rewrite_lets


@final
@dataclass(frozen=True, slots=True)
class EliminateCommonSubexpr:
    """Share equal values within each function.

    Constants are equal where their bytes are; those above `max_constant_bytes` by identity only.
    """

    name: ClassVar[str] = "eliminate-common-subexpr"
    requires: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})
    ensures: ClassVar[frozenset[Form]] = frozenset({Form.TYPED})

    max_constant_bytes: int = 1 << 16

    def run(self, module: Module, context: PassContext) -> Module:
        """Return the module with equal values shared within each function."""
        effects, types = Effects(module), _types_of_results(module)
        functions: dict[str, Function] = {}
        for name, function in module.functions.items():
            sharing = _Sharing(effects.of_all(function), types, self.max_constant_bytes)
            new = rewrite_lets(function, sharing.rule, sharing.bind, sharing.below)
            assert isinstance(new, Function), "a global function must stay a function"
            functions[name] = new
        same = all(functions[name] is old for name, old in module.functions.items())
        return module if same else module.with_functions(functions)


def _types_of_results(module: Module) -> Mapping[Expr, Type]:
    """Return types where what is around a call may decide them: an empty list is of any type."""
    for node in post_order(*module.functions.values()):
        if isinstance(node, Call) and isinstance(node.callee, GlobalVar | Constructor):
            return infer_types(module)
    return {}


@final
class _Sharing:
    """Values that are known here: those of the block and of the blocks around it, by their key."""

    def __init__(
        self, effects: Mapping[Expr, Effect], types: Mapping[Expr, Type], max_constant_bytes: int
    ) -> None:
        self._effects = effects
        self._types = types
        self._max_constant_bytes = max_constant_bytes
        self._functions: list[dict[Hashable, Expr]] = [{}]
        self._added: list[list[Hashable]] = [[]]
        self._names: dict[Expr, Let] = {}
        """Of a value that a `let` around this place binds, that `let`."""

    def below(self, node: Expr) -> Iterator[Expr]:
        """Yield the children; what a block adds is forgotten at its end."""
        match node:
            case If(condition, then, otherwise):
                yield condition
                yield from self._block(then)
                yield from self._block(otherwise)
            case Match(value, clauses):
                yield value
                for clause in clauses:
                    yield from pattern_variables(clause.pattern)
                    yield from self._block(clause.body)
            case Function(params, body):
                yield from params
                self._functions.append({})
                yield from self._block(body)
                self._functions.pop()
            case _:
                yield from children(node)

    def _block(self, body: Expr) -> Iterator[Expr]:
        self._added.append([])
        yield body
        known = self._functions[-1]
        for key in self._added.pop():
            del known[key]

    def bind(self, let: Let, value: Expr) -> Expr | None:
        """Return the name that the value has already, or the atom that it is."""
        if isinstance(value, ATOMS):
            return value if let.var.annotation is None else None
        if self._effects[let.value] & ~Effect.FAILS or isinstance(value, Function):
            return None
        known = self._names.setdefault(value, let)
        return known.var if known is not let and _is_same_name(known, let) else None

    def rule(self, original: Expr, rebuilt: Expr) -> Expr:
        """Return the first node that is equal."""
        if isinstance(rebuilt, Let):
            if self._names.get(rebuilt.value) is original:
                del self._names[rebuilt.value]
            return rebuilt
        key = self._key(original, rebuilt)
        if key is None:
            return rebuilt
        known = self._functions[-1]
        if key not in known:
            known[key] = rebuilt
            self._added[-1].append(key)
        return known[key]

    def _key(self, original: Expr, rebuilt: Expr) -> Hashable | None:
        match rebuilt:
            case Constant(value) if value.nbytes <= self._max_constant_bytes:
                return value.dtype.str, value.shape, value.tobytes()
            case Call(OpRef(name), args, attrs):
                return OpRef, name, repr(attrs), args
            case Call(Constructor(name), args):
                return Constructor, name, self._types.get(original), args
            case Call(GlobalVar(name), args) if not self._effects[original] & ~Effect.FAILS:
                return GlobalVar, name, self._types.get(original), args
            case Tuple(fields):
                return Tuple, fields
            case Project(value, index):
                return Project, value, index
            case _:
                return None


def _is_same_name(known: Let, other: Let) -> bool:
    return known.var.annotation == other.var.annotation
