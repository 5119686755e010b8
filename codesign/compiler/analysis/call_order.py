"""The functions of a module so that callees come before callers, where there is no circle."""

from __future__ import annotations

from collections.abc import Iterator

from codesign.ir.relay.expr import Function, GlobalVar
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order


def callees_first(module: Module) -> list[Function]:
    """Return every function of the module, each after those that it calls and that do not call it.

    Functions in a circle stand in the order in which they are reached.
    """
    done: dict[str, None] = {}
    opened: set[str] = set()
    stack: list[tuple[str, Iterator[str]]] = []
    for root in module.functions:
        stack.append((root, iter(callees(module, root))))
        opened.add(root)
        while stack:
            name, pending = stack[-1]
            callee = next((each for each in pending if each not in opened), None)
            if callee is None:
                stack.pop()
                done.setdefault(name)
            else:
                opened.add(callee)
                stack.append((callee, iter(callees(module, callee))))
    return [module.functions[name] for name in done]


def callees(module: Module, name: str) -> list[str]:
    """Return the global functions that a function mentions."""
    return [
        node.name
        for node in post_order(module.functions[name])
        if isinstance(node, GlobalVar) and node.name in module.functions
    ]


def recursive_functions(module: Module) -> set[str]:
    """Return the names of functions that call themselves, also through others.

    Strongly connected components by two searches: in the order of finishing, then backwards.
    """
    order = callees_first(module)
    names = {function: name for name, function in module.functions.items()}
    below = {name: callees(module, name) for name in module.functions}
    callers: dict[str, list[str]] = {name: [] for name in module.functions}
    for name, each in below.items():
        for callee in each:
            callers[callee].append(name)
    group: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for root in (names[function] for function in reversed(order)):
        pending = [root]
        while pending:
            name = pending.pop()
            if name not in group:
                group[name] = root
                sizes[root] = sizes.get(root, 0) + 1
                pending += callers[name]
    return {name for name in below if sizes[group[name]] > 1 or name in below[name]}
