"""A call in tail position takes its caller's place, however many arguments either has."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.native.compile import compile_native
from codesign.compiler.frontend.relay_parser import parse_module
from host_runtime.native import NativeFunction

HEAD = '#[version = "0.0.5"]\n'
STACK_BYTES = 1 << 20
"""Room for some thousand activations."""

TIMES = 300_000


def _run(text: str) -> object:
    module = parse_module(HEAD + text)
    function = NativeFunction(compile_native(module, infer_types(module)), stack_bytes=STACK_BYTES)
    result = function(np.asarray(0, np.int32))
    assert function.live_objects == 0
    return result


def _listed(template: str, count: int) -> str:
    return ", ".join(template.format(number) for number in range(count))


@pytest.mark.parametrize("count", [1, 4, 5, 6, 12])
def test_a_function_that_calls_itself(count: int) -> None:
    last = f"%a{count - 1}"
    text = f"""
def @steps({_listed("%a{}: int32", count)}) -> int32 {{
  if (%a0 == {TIMES}) {{ {last} }} else {{ @steps({_listed("%a{} + 1", count)}) }}
}}
def @main(%x: int32) {{ @steps({_listed("%x + {}", count)}) }}
"""
    assert _run(text) == TIMES + count - 1


def test_functions_of_few_and_of_many_arguments() -> None:
    text = f"""
def @few(%x: int32) -> int32 {{
  if (%x == {TIMES}) {{ %x }} else {{ @many({_listed("%x + {}", 9)}) }}
}}
def @many({_listed("%a{}: int32", 9)}) -> int32 {{ @few(%a8 - 7) }}
def @main(%x: int32) {{ @few(%x) }}
"""
    assert _run(text) == TIMES
