"""The only traversal of Relay expressions: iterative, and one visit for each shared node.

A chain of any length is walked without recursion, a diamond of any depth in time linear in its
nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, assert_never

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
    OpRef,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Project,
    RefNew,
    RefRead,
    RefWrite,
    Tuple,
    Var,
    Wildcard,
    pattern_variables,
)
from codesign.ir.relay.module import Module

Rule: TypeAlias = Callable[[Expr], Expr]
"""Sees a node whose children are rewritten; returns it or what takes its place."""

Below: TypeAlias = Callable[[Expr], Iterable[Expr]]
"""Says which nodes lie below a node."""

PairRule: TypeAlias = Callable[[Expr, Expr], Expr]
"""Sees the original node too: `rule(original, rebuilt)`; facts are known about the original."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the sub-expressions in the order of evaluation; binders come after what they bind."""
    match expr:  # patterns with fields take twice as long, and this is called all the time
        case Var():
            return ()
        case Call():
            return (expr.callee, *expr.args)
        case Let():
            return (expr.value, expr.var, expr.body)
        case Constant() | OpRef() | GlobalVar() | Constructor():
            return ()
        case Tuple():
            return expr.fields
        case Project() | RefNew():
            return (expr.value,)
        case Function():
            return (*expr.params, expr.body)
        case If():
            return (expr.condition, expr.then, expr.otherwise)
        case Match():
            below = (each for clause in expr.clauses for each in _clause_children(clause))
            return (expr.value, *below)
        case RefRead():
            return (expr.reference,)
        case RefWrite():
            return (expr.reference, expr.value)
        case _:
            assert_never(expr)


def _clause_children(clause: Clause) -> tuple[Expr, ...]:
    return (*pattern_variables(clause.pattern), clause.body)


def with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """Return the expression with other children, in the order of `children`.

    Where every child is the old one the expression itself is returned.
    """
    if all(a is b for a, b in zip(children(expr), new, strict=True)):
        return expr
    match expr:
        case Var() | GlobalVar() | Constant() | OpRef() | Constructor():
            return expr
        case Call():
            return replace(expr, callee=new[0], args=new[1:])
        case Let():
            return replace(expr, value=new[0], var=_as_var(new[1]), body=new[2])
        case If():
            return replace(expr, condition=new[0], then=new[1], otherwise=new[2])
        case Tuple():
            return replace(expr, fields=new)
        case Project():
            return replace(expr, value=new[0])
        case Function():
            return replace(expr, params=tuple(_as_var(each) for each in new[:-1]), body=new[-1])
        case Match():
            return replace(expr, value=new[0], clauses=_with_clauses(expr.clauses, iter(new[1:])))
        case RefNew():
            return replace(expr, value=new[0])
        case RefRead():
            return replace(expr, reference=new[0])
        case RefWrite():
            return replace(expr, reference=new[0], value=new[1])
        case _:
            assert_never(expr)


def _with_clauses(clauses: tuple[Clause, ...], new: Iterator[Expr]) -> tuple[Clause, ...]:
    return tuple(Clause(_with_variables(each.pattern, new), next(new)) for each in clauses)


def _with_variables(pattern: Pattern, new: Iterator[Expr]) -> Pattern:
    match pattern:
        case Wildcard():
            return pattern
        case PatternVar():
            return PatternVar(_as_var(next(new)))
        case PatternConstructor() | PatternTuple():
            return replace(pattern, fields=tuple(_with_variables(f, new) for f in pattern.fields))
        case _:
            assert_never(pattern)


def _as_var(expr: Expr) -> Var:
    assert isinstance(expr, Var), "what binds must stay a variable"
    return expr


def post_order(*roots: Expr, below: Below = children) -> Iterator[Expr]:
    """Yield every node once, its children before it; binders and callees are nodes too.

    `below` says what lies below a node where it is not all its children.
    """
    visited: set[Expr] = set()
    stack: list[tuple[Expr, Iterator[Expr]]] = []
    for root in roots:
        if root in visited:
            continue
        visited.add(root)
        stack.append((root, iter(below(root))))
        while stack:
            node, pending = stack[-1]
            for child in pending:
                if child in visited:
                    continue
                visited.add(child)
                under = below(child)
                if under == ():
                    yield child
                    continue
                stack.append((child, iter(under)))
                break
            else:
                stack.pop()
                yield node


def rewrite_pairs(expr: Expr, rule: PairRule) -> Expr:
    """Return the expression with every node replaced by what the rule makes of it, bottom up.

    Each shared node is rewritten once, so that sharing stays.
    """
    rewritten: dict[Expr, Expr] = {}
    for node in post_order(expr):
        rebuilt = with_children(node, tuple(rewritten[each] for each in children(node)))
        rewritten[node] = rule(node, rebuilt)
    return rewritten[expr]


def rewrite(expr: Expr, rule: Rule) -> Expr:
    """Return the expression with every node replaced by what the rule makes of it, bottom up.

    Examples
    --------
    >>> x, y = Var("x"), Var("y")
    >>> pair = Tuple((x, x))
    >>> [each.name for each in rewrite(pair, lambda node: y if node is x else node).fields]
    ['y', 'y']
    >>> rewrite(pair, lambda node: node) is pair
    True
    """
    return rewrite_pairs(expr, lambda _, rebuilt: rule(rebuilt))


def rewrite_lets(
    expr: Expr, rule: PairRule, bind: Callable[[Let, Expr], Expr | None], below: Below = children
) -> Expr:
    """Return the expression rewritten as by `rewrite_pairs`, without lets that `bind` does away.

    `bind(let, value)` sees a `let` and its rewritten value before the body is rewritten. What it
    returns takes the variable's place everywhere and the `let` goes; None leaves both. It is not
    asked about a function that mentions itself.
    """
    rewritten: dict[Expr, Expr] = {}
    gone: set[Expr] = set()

    def below_node(node: Expr) -> Iterator[Expr]:
        if not isinstance(node, Let):
            yield from below(node)
            return
        yield node.value
        if node.var not in rewritten:
            new = bind(node, rewritten[node.value])
            if new is not None:
                rewritten[node.var] = new
                gone.add(node)
        yield from (node.var, node.body)

    for node in post_order(expr, below=below_node):
        if node in gone:
            assert isinstance(node, Let), "only a let goes"
            rewritten[node] = rewritten[node.body]
        elif node not in rewritten:
            rebuilt = with_children(node, tuple(rewritten[each] for each in children(node)))
            rewritten[node] = rule(node, rebuilt)
    return rewritten[expr]


def rewrite_module(module: Module, rule: Rule) -> Module:
    """Return the module with every function rewritten; itself where nothing changed."""
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        new = rewrite(function, rule)
        assert isinstance(new, Function), "a global function must stay a function"
        functions[name] = new
    same = all(functions[name] is old for name, old in module.functions.items())
    return module if same else module.with_functions(functions)


def substitute(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Return the expression with variables replaced; they must not be bound in it."""
    return rewrite(expr, lambda node: values.get(node, node) if isinstance(node, Var) else node)


def free_variables(expr: Expr) -> tuple[Var, ...]:
    """Return the variables that nothing in the expression binds, in order of first use.

    Every variable is bound at most once, as `wellformed` checks.
    """
    bound: set[Expr] = set()
    seen: list[Var] = []
    for node in post_order(expr):
        match node:
            case Var():
                seen.append(node)
            case Let(var=var):
                bound.add(var)
            case Function(params=params):
                bound.update(params)
            case Match(clauses=clauses):
                bound.update(var for each in clauses for var in pattern_variables(each.pattern))
            case _:
                pass
    return tuple(var for var in seen if var not in bound)


def use_counts(*roots: Expr, below: Below = children) -> dict[Expr, int]:
    """Return for each node how many places refer to it; roots count one more each.

    `below` is that of `post_order`.
    """
    counts: dict[Expr, int] = {}
    for node in post_order(*roots, below=below):
        counts.setdefault(node, 0)
        for child in below(node):
            counts[child] = counts.get(child, 0) + 1
    for root in roots:
        counts[root] += 1
    return counts
