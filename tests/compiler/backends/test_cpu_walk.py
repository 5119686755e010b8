"""Large weights of a single row are walked to and fro; results do not tell."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.llvm.cpu import module_text
from codesign.ir.relay.expr import Call, Constant, Function, OpRef
from codesign.ir.relay.module import Module
from tests.support.cpu import native, variables

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("inputs", "outputs", "turns"),
    [(300, 750, True), (256, 1024, True), (300, 605, True), (150, 150, False)],
)
def test_every_call_gives_the_same_bits(inputs: int, outputs: int, turns: bool) -> None:
    x = RANDOM.standard_normal((1, inputs)).astype(np.float32)
    weight = RANDOM.standard_normal((outputs, inputs)).astype(np.float32)
    (variable,) = params = variables(x)
    body = Call(OpRef("nn.dense"), (variable, Constant(weight)))
    main = Function(params, body)
    assert ("@turns" in module_text(main, infer_types(Module({"main": main})))) == turns
    function = native(body, params)
    results = [function(x)[0] for _ in range(4)]
    np.testing.assert_allclose(results[0], x @ weight.T, rtol=1e-4, atol=1e-4)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
