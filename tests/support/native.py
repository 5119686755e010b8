"""Relay programs in native code beside the interpreter, which is their oracle."""

from __future__ import annotations

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.native.compile import compile_native
from codesign.compiler.interpreter import Interpreter
from codesign.ir.executable.values import DataValue
from codesign.ir.relay.module import Module
from host_runtime.native import NativeFunction
from tests.support.relay_values import module_of, to_python, to_relay


def native_module(module: Module, *, stack_bytes: int = 1 << 30) -> NativeFunction:
    """Return the compiled module."""
    program = compile_native(module, infer_types(module))
    return NativeFunction(program, stack_bytes=stack_bytes)


def native(text: str, *, stack_bytes: int = 1 << 30) -> NativeFunction:
    """Return the compiled program of a text without its head; it may use the prelude."""
    return native_module(module_of(text), stack_bytes=stack_bytes)


def run_native(text: str, *args: object) -> object:
    """Return as Python values what native code makes of Python values; nothing may be left over."""
    function = native(text)
    found = to_python(function(*(to_relay(each) for each in args)))
    assert function.live_objects == 0
    return found


def assert_agrees(module: Module, *args: object, exact: bool = True) -> None:
    """Hold native code to the interpreter, and to leaving nothing behind."""
    values = [to_relay(each) for each in args]
    function = native_module(module)
    found = function(*values)
    assert function.live_objects == 0
    expected = Interpreter(module).result_of(module.main, values)
    if exact:
        assert to_python(found) == to_python(expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def from_python(value: object) -> object:
    """Return Python values with tuples that begin with a constructor's name as what it made."""
    match value:
        case (str() as name, *fields):
            return DataValue(name, tuple(to_relay(from_python(each)) for each in fields))
        case tuple():
            return tuple(map(from_python, value))
        case list():
            return [from_python(each) for each in value]
        case _:
            return value
