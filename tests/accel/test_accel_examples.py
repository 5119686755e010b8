"""The examples in the contract's docstrings hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import codesign.accel


@pytest.mark.parametrize(
    "name", [each.name for each in pkgutil.iter_modules(codesign.accel.__path__)]
)
def test_examples_in_docstrings_hold(name: str) -> None:
    module = importlib.import_module(f"codesign.accel.{name}")
    assert doctest.testmod(module).failed == 0
