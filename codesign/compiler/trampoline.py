"""Recursion whose depth has no limit: a stack of Python generators.

A computation yields those that it waits for, and gets what they return.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any


def run(steps: Generator[Any, Any, Any]) -> Any:
    """Run a computation and those that it waits for; return what it returns.

    Examples
    --------
    >>> def total(depth):
    ...     return depth and depth + (yield total(depth - 1))
    >>> run(total(10_000))
    50005000
    """
    waiting = [steps]
    value = None
    while waiting:
        try:
            below = waiting[-1].send(value)
        except StopIteration as end:
            waiting.pop()
            value = end.value
        else:
            waiting.append(below)
            value = None
    return value
