"""The order in which the nodes of a function are evaluated, and in which block each one is.

A function has a block for its body; so has each branch of an `if`, each clause of a `match`, and
each function in it. A node with uses in several blocks can be computed once in the innermost block
around all of them (its *home*), if that changes nothing: it is what its first use needs anyway, or
it cannot fail and does nothing but give a value. Otherwise it is *delayed*: whichever use comes
first must compute it, and the others must know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, assert_never, final

from codesign.compiler.analysis.effects import Effect, Effects
from codesign.ir.relay.expr import Call, Expr, Function, If, Let, Match
from codesign.ir.relay.module import Module
from codesign.ir.relay.rename import ATOMS, fresh_copy, type_parameter_names
from codesign.ir.relay.visit import children, post_order, rewrite


def is_atom(node: Expr) -> bool:
    """Return whether a node costs nothing to evaluate: it may stand in many places.

    A Primitive function is one kernel; nothing looks inside.
    """
    return isinstance(node, ATOMS) or (isinstance(node, Function) and is_primitive(node))


def is_primitive(function: Function) -> bool:
    """Return whether a function stands for one kernel."""
    return "Primitive" in function.attributes


@final
@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What is evaluated together; `owner` is the node whose branch, clause or body it is."""

    outer: Block | None = None
    owner: Expr | None = None
    depth: int = 0

    def inside(self, owner: Expr) -> Block:
        """Return a new block in this one."""
        return Block(self, owner, self.depth + 1)


def common_block(left: Block, right: Block) -> Block:
    """Return the innermost block around both."""
    while left is not right:
        if left.depth < right.depth:
            left, right = right, left
        assert left.outer is not None, "all blocks of a function lie in one"
        left = left.outer
    return left


@final
@dataclass(frozen=True, slots=True)
class Finish:
    """A node's operands are known: it is computed."""

    node: Expr


@final
@dataclass(frozen=True, slots=True)
class Bind:
    """The value of a `let` is known: its variable is bound."""

    let: Let


@final
@dataclass(frozen=True, slots=True)
class Use:
    """A node is needed by another one: by its evaluation, or by its block number `way`."""

    user: Expr
    way: int
    node: Expr


Event: TypeAlias = Finish | Bind | Use

ITSELF: Final = -1
"""The `way` of an operand that the evaluation of its user needs."""


@final
@dataclass(slots=True, eq=False)
class Evaluation:
    """The events of one function in order, and where its nodes are evaluated.

    `start[n]` is how many events come before those of n and its operands.
    """

    function: Function
    effects: Mapping[Expr, Effect]
    events: list[Event] = field(default_factory=list)
    start: dict[Expr, int] = field(default_factory=dict)
    uses: dict[Expr, list[Use]] = field(default_factory=dict)
    home: dict[Expr, Block] = field(default_factory=dict)
    """The block in which a node's value is known from some point on."""
    place: dict[Expr, Block] = field(default_factory=dict)
    """The block in which a node is computed: its home, but for delayed nodes one of its own."""
    blocks: dict[Expr, tuple[Block, ...]] = field(default_factory=dict)
    """The blocks of a function's body, of an `if`'s branches, of a match's clauses."""
    delayed: set[Expr] = field(default_factory=set)

    @classmethod
    def of(cls, function: Function, effects: Mapping[Expr, Effect]) -> Evaluation:
        """Analyse a function whose inner functions share no node that has effects with it."""
        evaluation = cls(function, effects)
        for node in post_order(function, below=evaluation._below):
            if not is_atom(node):
                evaluation.events.append(Finish(node))
        evaluation._find_homes()
        return evaluation

    @property
    def body(self) -> Block:
        """The block of the whole function's body."""
        return self.blocks[self.function][0]

    def block_of(self, use: Use) -> Block:
        """Return the block in which a use is."""
        return self.place[use.user] if use.way == ITSELF else self.blocks[use.user][use.way]

    def is_spread(self, node: Expr) -> bool:
        """Return whether a node is used in several blocks, or elsewhere than it is computed."""
        home = self.home[node]
        return node in self.delayed or any(self.block_of(u) is not home for u in self.uses[node])

    def _below(self, node: Expr) -> Iterator[Expr]:
        self.start[node] = len(self.events)
        if is_atom(node):
            return
        for place, (way, child) in enumerate(_ways(node)):
            yield child
            if not is_atom(child):
                use = Use(node, way, child)
                self.events.append(use)
                self.uses.setdefault(child, []).append(use)
            if isinstance(node, Let) and place == 0:
                self.events.append(Bind(node))

    def _find_homes(self) -> None:
        for event in reversed(self.events):
            if isinstance(event, Finish):
                self._find_home(event.node)

    def _find_home(self, node: Expr) -> None:
        if node is self.function:
            home = Block()
        else:
            blocks = [self.block_of(use) for use in self.uses[node]]
            home = blocks[0]
            for each in blocks:
                home = common_block(home, each)
            if self._must_wait(node, home, blocks):
                self.delayed.add(node)
        self.home[node] = home
        self.place[node] = place = home.inside(node) if node in self.delayed else home
        if isinstance(node, Function | If | Match):
            self.blocks[node] = tuple(place.inside(node) for _ in range(_block_count(node)))

    def _must_wait(self, node: Expr, home: Block, blocks: list[Block]) -> bool:
        if home is blocks[0]:
            return False
        effect = self.effects[node] & ~Effect.ALLOCATES
        if effect == Effect.FAILS:
            return not self._is_certain(home, blocks)
        return effect != Effect.NONE

    def _is_certain(self, home: Block, blocks: list[Block]) -> bool:
        """Return whether what these blocks need is needed whenever `home` is evaluated."""
        certain, pending = set[Block](), list(blocks)
        while pending:
            block = pending.pop()
            certain.add(block)
            owner, outer = block.owner, block.outer
            if isinstance(owner, If | Match) and outer is not None and outer not in certain:
                ways = self.blocks.get(owner, ())
                if block in ways and certain.issuperset(ways):
                    pending.append(outer)
        return home in certain


def _ways(node: Expr) -> Iterator[tuple[int, Expr]]:
    """Yield what evaluating a node needs, in order, with the block in which it does."""
    match node:
        case Function(body=body):
            yield 0, body
        case If(condition, then, otherwise):
            yield from ((ITSELF, condition), (0, then), (1, otherwise))
        case Match(value, clauses):
            yield ITSELF, value
            yield from ((index, clause.body) for index, clause in enumerate(clauses))
        case Let(_, value, body):
            yield from ((ITSELF, value), (ITSELF, body))
        case Call(callee, args):
            yield from ((ITSELF, each) for each in (callee, *args))
        case _:
            yield from ((ITSELF, each) for each in children(node))


def _block_count(node: Function | If | Match) -> int:
    match node:
        case Function():
            return 1
        case If():
            return 2
        case Match(clauses=clauses):
            return len(clauses)
        case _:
            assert_never(node)


def unshare_functions(module: Module) -> Module:
    """Return the module with inner functions that share no node with effects with what is around.

    Such a node is evaluated once in each activation of each function that reaches it, so that a
    copy of the function means the same.
    """
    functions: dict[str, Function] = {}
    effects, names = Effects(module), type_parameter_names(module)
    for name, function in module.functions.items():
        while (shared := _sharing_function(function, effects)) is not None:
            copy = fresh_copy(shared, names)
            replaced = rewrite(function, lambda node: copy if node is shared else node)  # noqa: B023
            assert isinstance(replaced, Function), "a function stays one"
            function = replaced
        functions[name] = function
    if all(functions[name] is old for name, old in module.functions.items()):
        return module
    return module.with_functions(functions)


def _sharing_function(root: Function, effects: Effects) -> Function | None:
    """Return an inner function that shares a node with effects with another function around it.

    Of several it is one that lies around none of the others, so that a copy ends the sharing.
    """
    nodes = [node for node in post_order(root) if not isinstance(node, ATOMS)]
    position = {node: index for index, node in enumerate(nodes)}
    if sum(isinstance(node, Function) for node in nodes) <= 1:
        return None
    known = effects.of_all(root)
    owners: dict[Expr, dict[Function, None]] = {node: {} for node in nodes}
    for node in reversed(nodes):
        if len(owners[node]) > 1 and known[node] != Effect.NONE:
            return min(owners[node], key=lambda each: position[each])
        inside = (node,) if isinstance(node, Function) else tuple(owners[node])[:2]
        for child in children(node):
            if child in owners:
                owners[child].update(dict.fromkeys(inside))
    return None
