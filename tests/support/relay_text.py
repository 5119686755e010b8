"""Relay text of whole modules, for tests."""

from __future__ import annotations

from codesign.compiler.frontend.relay_parser import parse_module
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module

HEAD = '#[version = "0.0.5"]\n'


def read_back(module: Module) -> Module:
    """Return the module printed and read; its own text must be the same."""
    text = print_module(module)
    read = parse_module(text)
    assert print_module(read) == text
    return read
