"""fuse-ops and defuse-ops: limits, fields of tuples, cells in order, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.analysis.home_blocks import home_blocks
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import Form, PassContext, PassManager
from codesign.compiler.passes.defuse_ops import DefuseOps
from codesign.compiler.passes.fuse_ops import FuseOps
from codesign.compiler.pipelines import optimize
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.expr import Call, Function, If, OpRef
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order
from experiments.laws.passes import judge
from experiments.laws.program import random_program
from tests.support.cpu import native
from tests.support.random_networks import RandomNetwork

READY = frozenset({Form.TYPED, Form.INFERENCE})


def _fused(module: Module, **limits: int) -> Module:
    return PassManager(verify=True).run(module, (FuseOps(**limits),), READY)


def _groups(module: Module) -> list[tuple[Function, list[str]]]:
    return [
        (node, [each.callee.name for each in post_order(node.body)
                if isinstance(each, Call) and isinstance(each.callee, OpRef)])
        for node in post_order(module.main.body)
        if isinstance(node, Function) and "Primitive" in node.attributes
    ]  # fmt: skip


@given(seed=st.integers(0, 2**32 - 1))
def test_defusing_gives_back_what_was_fused(seed: int) -> None:
    module = optimize(RandomNetwork(seed).module)
    assert is_equal_module(DefuseOps().run(_fused(module), PassContext()), module)


@given(seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 6), args=st.integers(1, 4))
def test_groups_keep_their_limits(seed: int, depth: int, args: int) -> None:
    for function, names in _groups(_fused(RandomNetwork(seed).module, max_depth=depth)):
        assert len(names) <= depth, function
    for function, names in _groups(_fused(RandomNetwork(seed).module, max_args=args)):
        assert len(function.params) <= args or len(names) == 1, function


CHAIN = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32]) {{ {body} }}
"""


@pytest.mark.parametrize(("depth", "wanted"), [(1, [1] * 6), (2, [2, 2, 2]), (4, [4, 2]), (9, [6])])
def test_a_long_chain_is_cut(depth: int, wanted: list[int]) -> None:
    module = parse_module(CHAIN.format(body="exp(nn.relu(" * 3 + "%x" + "))" * 3))
    lengths = [len(names) for _, names in _groups(_fused(module, max_depth=depth))]
    assert sorted(lengths) == sorted(wanted)


@pytest.mark.parametrize("seed", range(10))
def test_the_whole_language_keeps_its_answers(seed: int) -> None:
    judged = judge(random_program(seed, 40), ("fuse-ops", "defuse-ops", "simplify-expr"))
    assert not judged.breaches


def test_fields_of_tuples_run_compiled() -> None:
    module = parse_module("""#[version = "0.0.5"]
def @main(%x: Tensor[(2, 5), float32]) {
  %0 = split(%x, indices_or_sections=[2, 3], axis=1);
  %1 = split(exp(%x), indices_or_sections=[2, 3], axis=1);
  (concatenate((nn.relu(%0.0), %1.2), axis=1), negative(%1.1))
}
""")
    fused = _fused(module)
    x = np.random.default_rng(1).standard_normal((2, 5)).astype(np.float32)
    wanted = Interpreter(module).run(x=x)
    assert isinstance(wanted, tuple)
    main = fused.main
    for found, each in zip(native(main.body, main.params)(x), wanted, strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-6)


def test_arguments_are_evaluated_in_their_order() -> None:
    module = parse_module("""#[version = "0.0.5"]
def @next(%cell: ref(int32)) -> int32 {
  let %old = ref_read(%cell);
  let %done = ref_write(%cell, %old * 10 + 1);
  %old
}
def @main() -> (int32, int32) {
  let %cell = ref(1);
  let %value = @next(%cell) - negative(@next(%cell) * 2) * @next(%cell);
  (%value, ref_read(%cell))
}
""")
    fused = _fused(module)
    assert len(_groups(fused)) == 1
    assert Interpreter(fused).run() == Interpreter(module).run()
    assert Interpreter(DefuseOps().run(fused, PassContext())).run() == Interpreter(module).run()


def test_what_two_branches_use_lies_around_them() -> None:
    module = parse_module("""#[version = "0.0.5"]
def @main(%x: float32, %b: bool) {
  %0 = exp(%x);
  %1 = negative(%x);
  if (%b) { %0 + %1 } else { %0 * 2f }
}
""")
    body = module.main.body
    assert isinstance(body, If)
    blocks = home_blocks(body)
    assert isinstance(body.then, Call)
    shared, own = body.then.args
    assert blocks[shared] is blocks[body]
    assert blocks[own] is blocks[body.then]
    assert blocks[body.then] is not blocks[body.otherwise]
