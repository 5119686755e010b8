"""Python values as Relay values of the prelude's data types, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.values import DataValue, Result
from codesign.ir.relay.module import Module
from codesign.ir.relay.wellformed import check_module

HEAD = '#[version = "0.0.5"]\n'


def module_of(text: str) -> Module:
    """Return the module of a text without its head; it may use the prelude, and is checked."""
    module = parse_module(HEAD + text, imports=prelude())
    check_module(module)
    infer_types(module)
    return module


def run(text: str, *args: object) -> object:
    """Return as Python values what main makes of Python values."""
    module = module_of(text)
    return to_python(Interpreter(module).result_of(module.main, [to_relay(each) for each in args]))


def to_relay(value: object) -> Result:
    """Return numbers as scalars, lists as `List`, tuples as tuples."""
    match value:
        case bool():
            return np.asarray(value)
        case int():
            return np.asarray(value, np.int32)
        case float():
            return np.asarray(value, np.float32)
        case tuple():
            return tuple(map(to_relay, value))
        case list():
            return relay_list([to_relay(each) for each in value])
        case np.ndarray() | DataValue():
            return value
        case _:
            raise TypeError(f"no Relay value for {value!r}")


def relay_list(elements: Sequence[Result]) -> DataValue:
    """Return the elements as a `List`."""
    found = DataValue("Nil")
    for each in reversed(elements):
        found = DataValue("Cons", (each, found))
    return found


def to_python(result: Result) -> object:
    """Return scalars as numbers, `List` as a list, other data as (constructor, field, …)."""
    match result:
        case np.ndarray() if result.shape == ():
            return result.item()
        case np.ndarray():
            return result.tolist()
        case tuple():
            return tuple(map(to_python, result))
        case DataValue("Cons" | "Nil"):
            found = []
            while isinstance(result, DataValue) and result.constructor == "Cons":
                head, result = result.fields
                found.append(to_python(head))
            return found
        case DataValue(name, fields):
            return (name, *map(to_python, fields))
        case _:
            raise TypeError(f"no Python value for {result!r}")
