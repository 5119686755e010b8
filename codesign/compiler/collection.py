"""Compiles without Python's search for cycles: programs are trees that nothing points back to.

The collector would walk all of a growing program again and again, which costs a third of the time
and makes it grow faster than the program.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_cycle_collection() -> Iterator[None]:
    """Stop the cycle collector for a while, where it runs; counting references goes on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
