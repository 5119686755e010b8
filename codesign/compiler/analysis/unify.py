"""Types that are found out step by step: a union-find over holes, and what waits for them.

A hole stands for a type that is not known yet. `flow(found, expected)` says that a value of one
type stands where another is expected; it binds holes, and what watches a hole is put into the queue
whenever more is known about it.

`?` is gradual: it fits any length. What flows into a hole that is bound already may loosen it: from
`Tensor[(3,), …]` and `Tensor[(?,), …]` it becomes the latter. Nothing else ever changes, and a
length only ever becomes `?`, so that the queue runs empty.

Source: Roesch et al., "Relay: A New IR for Machine Learning Frameworks" (2018), section on type
inference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Generic, TypeVar, final

from codesign.compiler.analysis.lengths import Lengths
from codesign.ir.relay.type_algebra import parts, substitute_type, with_parts
from codesign.ir.relay.types import (
    UNKNOWN,
    FuncType,
    Hole,
    Length,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
)
from codesign.ir.relay.types import TypeVar as TypeParameter

WaiterT = TypeVar("WaiterT")


@final
class Unifier(Generic[WaiterT]):
    """What is known about holes, and who waits for more."""

    def __init__(self) -> None:
        self.queue: deque[WaiterT] = deque()
        self.is_circular = False
        """Whether the last `flow` failed because a type would contain itself."""
        self._bound: dict[Hole, Type] = {}
        self._poisoned: set[Hole] = set()
        self._watchers: dict[Hole, list[WaiterT]] = {}
        self._closed: dict[int, Type] = {}
        self._lengths = Lengths()

    # --- what is known ----------------------------------------------------------------------------

    def head(self, type_: Type) -> Type:
        """Return the type without the holes around it: what it is made of is not looked at."""
        if not isinstance(type_, Hole):
            return type_
        root = self._root(type_)
        return self._bound.get(root, root)

    def resolve(self, type_: Type) -> Type:
        """Return the type with everything filled in that is known."""
        if self.is_closed(type_):
            return type_
        if isinstance(type_, TensorType):
            return self._lengths.resolve(type_)
        if isinstance(type_, Hole):
            found = self.head(type_)
            return found if isinstance(found, Hole) else self.resolve(found)
        return with_parts(type_, tuple(map(self.resolve, parts(type_))))

    def is_closed(self, type_: Type) -> bool:
        """Return whether the type has no holes, not even bound ones."""
        if isinstance(type_, TensorType):
            return self._lengths.is_closed(type_)
        if isinstance(type_, TypeParameter) or id(type_) in self._closed:
            return True
        if isinstance(type_, Hole) or not all(map(self.is_closed, parts(type_))):
            return False
        self._closed[id(type_)] = type_
        return True

    def holes(self, type_: Type) -> Iterator[Hole]:
        """Yield the holes in a type, also those that are bound, each as it is known now."""
        if self.is_closed(type_):
            return
        if isinstance(type_, Hole):
            root = self._root(type_)
            yield root
            if root not in self._bound:
                return
            type_ = self._bound[root]
        for each in parts(type_):
            yield from self.holes(each)

    def open_holes(self, type_: Type) -> list[Hole]:
        """Return the holes in a type about which nothing is known."""
        return [each for each in self.holes(type_) if each not in self._bound]

    def is_poisoned(self, type_: Type) -> bool:
        """Return whether the type depends on a mistake."""
        return any(each in self._poisoned for each in self.holes(type_))

    def poison(self, type_: Type) -> None:
        """Say that the type depends on a mistake: everything fits it, and no mistake follows."""
        self._poisoned.update(self.open_holes(type_))

    def poisoned(self) -> Hole:
        """Return a new hole that depends on a mistake."""
        hole = Hole()
        self._poisoned.add(hole)
        return hole

    def watch(self, type_: Type, waiter: WaiterT) -> None:
        """Put the waiter into the queue whenever more is known about a hole in the type."""
        for hole in set(self.holes(type_)):
            self._watchers.setdefault(hole, []).append(waiter)

    def _root(self, hole: Hole) -> Hole:
        root = hole
        while isinstance(above := self._bound.get(root), Hole):
            root = above
        while hole is not root:
            above = self._bound[hole]
            assert isinstance(above, Hole), "only the root of a tree of holes has a type"
            self._bound[hole], hole = root, above
        return root

    # --- unification ------------------------------------------------------------------------------

    def instance(self, function: FuncType) -> FuncType:
        """Return the function's type for one use: its type parameters are new holes."""
        if not function.type_params:
            return function
        fresh: dict[TypeParameter, Type] = {each: Hole() for each in function.type_params}
        return self._substituted(function, fresh)

    def _substituted(self, function: FuncType, values: dict[TypeParameter, Type]) -> FuncType:
        """Return the function's type with types in the place of its type parameters."""
        new = tuple(substitute_type(self.resolve(each), values) for each in parts(function))
        return FuncType(new[:-1], new[-1])

    def declare_lengths(self, lengths: Iterable[Length]) -> None:
        """Note names of lengths that stand for themselves; others that are met mean `?`."""
        self._lengths.declared.update(lengths)

    def with_new_lengths(self, type_: Type, own: Collection[Length]) -> Type:
        """Return a type for one use of a function, which chooses the function's own lengths."""
        return self._lengths.instance(self.resolve(type_), own)

    def flow(self, found: Type, expected: Type) -> bool:
        """Return whether a value of one type may stand where the other is expected."""
        self.is_circular = False
        return self._flow(found, expected)

    def _flow(self, found: Type, expected: Type) -> bool:
        left, right = self.head(found), self.head(expected)
        if left is right:
            return True
        if isinstance(left, Hole):
            return self._bind(left, right)
        if isinstance(right, Hole):
            return self._bind(right, left)
        fits = self._flow_parts(left, right)
        if fits and isinstance(expected, Hole):
            self._loosen(self._root(expected), self.resolve(left))
        return fits

    def _loosen(self, root: Hole, found: Type) -> None:
        known = self.resolve(root)
        looser = _looser(known, found)
        if looser is not known:
            self._bound[root] = looser
            self._wake(root)

    def _flow_parts(self, found: Type, expected: Type) -> bool:
        match found, expected:
            case TensorType(), TensorType():
                return _is_consistent(found, expected) and self._lengths.flow(found, expected)
            case FuncType(), FuncType():
                return self._flow_function(found, expected)
            case RefType(mine), RefType(other):
                return self._flow(mine, other) and self._flow(other, mine)
            case TypeCall(a), TypeCall(b) if a != b:
                return False
            case (TypeCall(), TypeCall()) | (TupleType(), TupleType()):
                return self._flow_all(parts(found), parts(expected))
            case _:
                return found == expected

    def _flow_all(self, found: tuple[Type, ...], expected: tuple[Type, ...]) -> bool:
        return len(found) == len(expected) and all(map(self._flow, found, expected))

    def _flow_function(self, found: FuncType, expected: FuncType) -> bool:
        if expected.type_params:
            if len(found.type_params) != len(expected.type_params):
                return False
            names = dict(zip(found.type_params, expected.type_params, strict=True))
            found = self._substituted(found, dict(names))
        else:
            found = self.instance(found)
        return self._flow_all(expected.params, found.params) and self._flow(
            found.result, expected.result
        )

    def _bind(self, hole: Hole, type_: Type) -> bool:
        if hole in self._poisoned or (isinstance(type_, Hole) and type_ in self._poisoned):
            self._poisoned.add(hole)
            self._poisoned.update(self.open_holes(type_))
            return True
        if hole in self.holes(type_):
            self.is_circular = True
            return False
        if isinstance(type_, FuncType):
            type_ = self.instance(type_)
        self._bound[hole] = type_
        if isinstance(type_, Hole):
            self._watchers.setdefault(type_, []).extend(self._watchers.get(hole, ()))
        self._wake(hole)
        return True

    def _wake(self, hole: Hole) -> None:
        self.queue.extend(self._watchers.get(hole, ()))

    def is_complete(self, type_: Type) -> bool:
        """Return whether everything in the type is known."""
        return self.is_closed(self.resolve(type_))


def _is_consistent(found: TensorType, expected: TensorType) -> bool:
    return (
        found.dtype is expected.dtype
        and len(found.shape) == len(expected.shape)
        and all(
            have is UNKNOWN or want is UNKNOWN or have == want
            for have, want in zip(found.shape, expected.shape, strict=True)
        )
    )


def _looser(known: Type, found: Type) -> Type:
    """Return the known type with `?` where the other one, which fits it, has that."""
    match known, found:
        case TensorType(shape, dtype), TensorType(other):
            if all(a is UNKNOWN or b is not UNKNOWN for a, b in zip(shape, other, strict=True)):
                return known
            pairs = zip(shape, other, strict=True)
            return TensorType(tuple(UNKNOWN if b is UNKNOWN else a for a, b in pairs), dtype)
        case (TupleType(), TupleType()) | (TypeCall(), TypeCall()):
            return with_parts(known, tuple(map(_looser, parts(known), parts(found))))
        case _:
            return known
