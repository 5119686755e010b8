"""The prelude: lists, options, trees, natural numbers and their functions, in Relay text.

A text that imports it gets what it uses:

>>> from codesign.compiler.frontend.relay_parser import parse_module
>>> text = '#[version = "0.0.5"] def @main(%x: int32) { @sum(Cons(%x, Nil)) }'
>>> sorted(parse_module(text, imports=prelude()).functions)
['foldl', 'main', 'sum']
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from codesign.compiler.frontend.relay_parser import parse_module
from codesign.ir.relay.module import Module

_TEXT: Final = "prelude.relay"
_GRADIENT: Final = "gradient.relay"


@cache
def prelude() -> Module:
    """Return the prelude, which is read at the first call only."""
    return _read(_TEXT)


@cache
def gradient_prelude() -> Module:
    """Return gradients that need not exist yet, `GradCell`, and what one does with them."""
    return _read(_GRADIENT)


def _read(name: str) -> Module:
    text = files("codesign.compiler.frontend").joinpath(name).read_text(encoding="utf-8")
    return parse_module(text, name)
