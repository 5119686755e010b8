"""Every rule of simplify-expr: what it makes, where it must not, and that each value stays."""

from __future__ import annotations

import re

import numpy as np
import pytest

from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pass_manager import PassContext, PassManager
from codesign.compiler.passes.simplify_expr import SimplifyExpr
from codesign.compiler.rewriting.simplify import arithmetic, movement, ranges
from codesign.compiler.rewriting.simplify.ranges import is_lossless
from codesign.dtypes import Array, DType
from codesign.ir.relay.equal import is_equal_module
from codesign.ir.relay.module import Module
from codesign.ir.relay.printer import print_module
from codesign.ir.relay.types import TensorType

HEAD = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(2, 3), float32], %row: Tensor[(3), float32],
          %i: Tensor[(2, 3), int32], %j: Tensor[(2, 3), int32], %h: Tensor[(2, 3), float16],
          %s: Tensor[(2, 3), int8], %b: Tensor[(2, 3), bool], %c: Tensor[(2, 3), bool],
          %t: Tensor[(2, 1, 3), float32], %img: Tensor[(1, 4, 2, 3), float32],
          %u: Tensor[(2, 3), uint8], %l: Tensor[(2, 3), int64], %d: Tensor[(2, 3), float64]) {
"""

CASES = [
    # identities: floating point keeps -0.0, integers have none
    ("%x - 0f", "%x"),
    ("%x - -0f", "%x - -0f"),
    ("%x + -0f", "%x"),
    ("%x + 0f", "%x + 0f"),
    ("%i + 0", "%i"),
    ("0 + %i", "%i"),
    ("%i - 0", "%i"),
    ("%x * 1f", "%x"),
    ("1f * %x", "%x"),
    ("%x / 1f", "%x"),
    ("%i / 1", "%i"),
    ("1f / %x", "1f / %x"),
    ("power(%x, 1f)", "%x"),
    ("power(%x, 2f)", "%x * %x"),
    ("power(%x, 3f)", "power(%x, 3f)"),
    # zeros
    ("%i * 0", 'zeros(shape=[2, 3], dtype="int32")'),
    ("%x * 0f", "%x * 0f"),
    ("%i - %i", 'zeros(shape=[2, 3], dtype="int32")'),
    ("%x - %x", "%x - %x"),
    ("0 - %i", "negative(%i)"),
    ("0f - %x", "0f - %x"),
    # signs
    ("%x + %x", "%x * 2f"),
    ("%i + %i", "%i * 2"),
    ("%x * -1f", "negative(%x)"),
    ("negative(negative(%x))", "%x"),
    ("%x + negative(%y)", "%x - %y"),
    ("negative(%y) + %x", "%x - %y"),
    ("%x - negative(%y)", "%x + %y"),
    ("abs(negative(%x))", "abs(%x)"),
    ("abs(abs(%x))", "abs(%x)"),
    ("maximum(%x, %x)", "%x"),
    ("maximum(%x, %y)", "maximum(%x, %y)"),
    ("1f / sqrt(%x)", "rsqrt(%x)"),
    ("2f / sqrt(%x)", "2f / sqrt(%x)"),
    ("logical_not(logical_not(%b))", "%b"),
    ("logical_and(%b, True)", "%b"),
    ("logical_and(%b, False)", "logical_and(%b, False)"),
    ("logical_or(%b, False)", "%b"),
    # constants of integers join, those of floating point do not
    ("%i + 3 + 4", "%i + 7"),
    ("%i - 3 + 4", "%i + 1"),
    ("%i + 3 - 4", "%i + -1"),
    ("%i - 3 - 4", "%i - 7"),
    ("%i * 3 * 4", "%i * 12"),
    ("(%i + 3) * 4", "%i * 4 + 12"),
    ("(%x + 3f) * 4f", "(%x + 3f) * 4f"),
    ("%x + 3f + 4f", "%x + 3f + 4f"),
    ("%x * 3f * 4f", "%x * 3f * 4f"),
    ("%i * %i + %i * %j * 2 + %j * %j", "%0 = %i + %j; %0 * %0"),
    ("%i * %i + %j * %j + %i * (2 * %j)", "%0 = %i + %j; %0 * %0"),
    ("%x * %x + %x * %y * 2f + %y * %y", "%x * %x + %x * %y * 2f + %y * %y"),
    ("%i * %i + %i * %j * 3 + %j * %j", "%i * %i + %i * %j * 3 + %j * %j"),
    # operands of one number, and broadcasts that happen anyway
    ('%x * ones(shape=[2, 3], dtype="float32")', "%x"),
    ('%row * ones(shape=[2, 3], dtype="float32")', '%row * ones(shape=[2, 3], dtype="float32")'),
    ("%x * full(2f, shape=[2, 3])", "%x * 2f"),
    ("%x - zeros_like(%y)", "%x"),
    ("%x * broadcast_to(%row, shape=[2, 3])", "%x * %row"),
    ("broadcast_to(%row, shape=[2, 3]) * %row", "broadcast_to(%row, shape=[2, 3]) * %row"),
    # shapes from another tensor
    ("nn.relu(zeros_like(%x))", 'nn.relu(zeros(shape=[2, 3], dtype="float32"))'),
    ("ones_like(%s)", 'ones(shape=[2, 3], dtype="int8")'),
    ("full_like(%x, 3f)", "full(3f, shape=[2, 3])"),
    ("reshape_like(%x, %t)", "reshape(%x, shape=[2, 1, 3])"),
    ("collapse_sum_like(%x, %row)", "collapse_sum_to(%x, shape=[3])"),
    ("collapse_sum_like(%x, %y)", "%x"),
    ("broadcast_to_like(%row, %y)", "broadcast_to(%row, shape=[2, 3])"),
    ("broadcast_to_like(%x, %y)", "%x"),
    ("cast_like(%x, %s)", 'cast(%x, dtype="int8")'),
    ("cast_like(%x, %y)", "%x"),
    # movement
    ("reshape(reshape(%x, shape=[6]), shape=[3, -1])", "reshape(%x, shape=[3, 2])"),
    ("reshape(reshape(%x, shape=[6]), shape=[2, 3])", "%x"),
    ("expand_dims(%x, axis=1)", "reshape(%x, shape=[2, 1, 3])"),
    ("squeeze(expand_dims(%x, axis=0, num_newaxis=2))", "%x"),
    ("transpose(transpose(%x))", "%x"),
    ("transpose(transpose(%t, axes=[2, 0, 1]), axes=[1, 2, 0])", "%t"),
    ("transpose(%t, axes=[1, 0, 2])", "reshape(%t, shape=[1, 2, 3])"),
    ("transpose(%t, axes=[2, 1, 0])", "transpose(%t, axes=[2, 1, 0])"),
    ('layout_transform(%img, src_layout="NCHW", dst_layout="NHWC")',
     "transpose(%img, axes=[0, 2, 3, 1])"),
    ('layout_transform(layout_transform(%img, src_layout="NCHW", dst_layout="NCHW2c"), '
     'src_layout="NCHW2c", dst_layout="NCHW")', "%img"),
    ('layout_transform(layout_transform(%img, src_layout="NCHW", dst_layout="NCHW2c"), '
     'src_layout="HNCW2c", dst_layout="NCHW4c")',
     'layout_transform(layout_transform(%img, src_layout="NCHW", dst_layout="NCHW2c"), '
     'src_layout="HNCW2c", dst_layout="NCHW4c")'),
    ("broadcast_to(broadcast_to(%row, shape=[1, 3]), shape=[2, 3])",
     "broadcast_to(%row, shape=[2, 3])"),
    ("collapse_sum_to(%x, shape=[2, 3])", "%x"),
    ("strided_slice(%x, begin=[0, 0], end=[9, 9])", "%x"),
    ("strided_slice(%x, begin=[-9, 2], end=[-9, -9], strides=[1, -1])",
     "strided_slice(%x, begin=[-9, 2], end=[-9, -9], strides=[1, -1])"),
    ("strided_slice(%x, begin=[-1, -1], end=[-9, -9], strides=[-1, -1])",
     "strided_slice(%x, begin=[-1, -1], end=[-9, -9], strides=[-1, -1])"),
    ("nn.pad(%x, pad_width=[[0, 0], [0, 0]])", "%x"),
    ("nn.pad(%x, pad_width=[[1, -1], [0, 0]])", "nn.pad(%x, pad_width=[[1, -1], [0, 0]])"),
    ("concatenate((%x,), axis=1)", "%x"),
    # casts
    ('cast(%x, dtype="float32")', "%x"),
    ('cast(cast(%s, dtype="int32"), dtype="float32")', 'cast(%s, dtype="float32")'),
    ('cast(cast(%s, dtype="int32"), dtype="uint8")', 'cast(%s, dtype="uint8")'),
    ('cast(cast(%x, dtype="float64"), dtype="int8")', 'cast(%x, dtype="int8")'),
    ('cast(cast(%x, dtype="float64"), dtype="float32")', "%x"),
    ('cast(cast(%i, dtype="float64"), dtype="int8")',
     'cast(cast(%i, dtype="float64"), dtype="int8")'),
    ('cast(cast(%s, dtype="float32"), dtype="int32")', 'cast(%s, dtype="int32")'),
    ('cast(cast(%i, dtype="float32"), dtype="float64")',
     'cast(cast(%i, dtype="float32"), dtype="float64")'),
    ('cast(cast(%l, dtype="bool"), dtype="int32")', 'cast(cast(%l, dtype="bool"), dtype="int32")'),
    ('cast(cast(%b, dtype="float16"), dtype="int32")', 'cast(%b, dtype="int32")'),
    ('cast(cast(%s, dtype="uint8"), dtype="int32")',
     'cast(cast(%s, dtype="uint8"), dtype="int32")'),
    ('cast(cast(%x, dtype="float16"), dtype="float32")',
     'cast(cast(%x, dtype="float16"), dtype="float32")'),
    # bounds
    ("clip(clip(%x, a_min=-1f, a_max=4f), a_min=0f, a_max=9f)", "clip(%x, a_min=0f, a_max=4f)"),
    ("clip(clip(%x, a_min=-3f, a_max=-2f), a_min=0f, a_max=9f)", "clip(%x, a_min=0f, a_max=0f)"),
    ("clip(clip(%i, a_min=0.5f, a_max=4f), a_min=1.5f, a_max=9f)",
     "clip(clip(%i, a_min=0.5f, a_max=4f), a_min=1.5f, a_max=9f)"),
    ("nn.relu(clip(%x, a_min=-1f, a_max=4f))", "clip(%x, a_min=0f, a_max=4f)"),
    ("clip(nn.relu(%x), a_min=-1f, a_max=4f)", "clip(%x, a_min=0f, a_max=4f)"),
    ("clip(nn.relu(%x), a_min=-3f, a_max=-2f)", "clip(nn.relu(%x), a_min=-3f, a_max=-2f)"),
    ("nn.relu(nn.relu(%x))", "nn.relu(%x)"),
    ("clip(%s, a_min=-128f, a_max=200f)", "%s"),
    ("clip(%s, a_min=-127f, a_max=127f)", "clip(%s, a_min=-127f, a_max=127f)"),
    ('clip(cast(%s, dtype="int32"), a_min=-128f, a_max=127f)', 'cast(%s, dtype="int32")'),
    ('cast(cast(clip(%i, a_min=0f, a_max=99f), dtype="int8"), dtype="int32")',
     "clip(%i, a_min=0f, a_max=99f)"),
    ('cast(cast(clip(%i, a_min=0f, a_max=200f), dtype="int8"), dtype="int32")',
     'cast(cast(clip(%i, a_min=0f, a_max=200f), dtype="int8"), dtype="int32")'),
    ("argmax(qnn.dequantize(%s, scale=0.5f, zero_point=3), axis=1)", "argmax(%s, axis=1)"),
    ("argmax(qnn.dequantize(%s, scale=1e-45f, zero_point=3), axis=1)", "argmax(%s, axis=1)"),
]  # fmt: skip

WITHIN_A_UNIT = {"power(%x, 2f)", "1f / sqrt(%x)"}

INEXACT = [
    ("%x + 0f", "%x"),
    ("%x + 3f + 4f", "%x + 7f"),
    ("%x * 3f * 4f", "%x * 12f"),
    ("(%x + 3f) * 4f", "%x * 4f + 12f"),
    ("%x * %x + %x * %y * 2f + %y * %y", "%0 = %x + %y; %0 * %0"),
    ("%x * 0f", "%x * 0f"),
    ("%x - %x", "%x - %x"),
]


def _module(text: str) -> Module:
    return parse_module(HEAD + text + "\n}")


def _simplified(module: Module, reassociate: bool = False) -> Module:
    return PassManager(verify=True).run(module, (SimplifyExpr(reassociate=reassociate),))


@pytest.mark.parametrize(("before", "after"), CASES)
def test_rule_makes_the_reviewed_text(before: str, after: str) -> None:
    found = _simplified(_module(before))
    assert is_equal_module(found, _module(after)), print_module(found)


@pytest.mark.parametrize(("before", "after"), INEXACT)
def test_rules_that_round_otherwise_run_where_they_are_allowed(before: str, after: str) -> None:
    found = _simplified(_module(before), reassociate=True)
    assert is_equal_module(found, _module(after)), print_module(found)


@pytest.mark.parametrize(("before", "after"), CASES)
def test_simplified_once_is_simplified(before: str, after: str) -> None:
    module = _simplified(_module(before))
    assert SimplifyExpr().run(module, PassContext()) is module


_SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45, 65504.0, 300.7]


def _values(type_: TensorType, rng: np.random.Generator) -> Array:
    shape, dtype = type_.static_shape, type_.dtype
    if dtype.is_float:
        drawn = np.where(rng.integers(0, 2, shape), rng.standard_normal(shape) * 100,
                         rng.choice(_SPECIAL, shape))  # fmt: skip
        with np.errstate(over="ignore"):
            return np.asarray(drawn).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return np.asarray(rng.integers(0, 2, shape) > 0)
    ends = np.array([dtype.minimum, dtype.maximum, 0, 1], dtype.numpy)[rng.integers(0, 4, shape)]
    drawn = rng.integers(dtype.minimum, dtype.maximum, shape, dtype.numpy, endpoint=True)
    return np.where(rng.integers(0, 2, shape), drawn, ends)


def _inputs(module: Module, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for param in module.main.params:
        assert isinstance(param.annotation, TensorType)
        found[param.name] = _values(param.annotation, rng)
    return found


def _assert_same_bits(found: Array, wanted: Array) -> None:
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    if wanted.dtype.kind == "f":
        is_number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])


@pytest.mark.parametrize("before", [before for before, _ in CASES])
def test_values_stay_bit_for_bit_for_special_operands_too(before: str) -> None:
    module = _module(before)
    simpler = _simplified(module)
    for seed in range(8):
        inputs = _inputs(module, seed)
        wanted = np.asarray(Interpreter(module).run(**inputs))
        found = np.asarray(Interpreter(simpler).run(**inputs))
        if before in WITHIN_A_UNIT:
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
            with np.errstate(invalid="ignore"):
                np.testing.assert_allclose(found, wanted, rtol=np.finfo(np.float32).eps)
        elif "clip" in before or "relu" in before or "maximum" in before:
            np.testing.assert_array_equal(found, wanted)  # the sign of a zero is not promised
        else:
            _assert_same_bits(found, wanted)


@pytest.mark.parametrize("source", list(DType))
@pytest.mark.parametrize("target", list(DType))
def test_a_lossless_cast_comes_back(source: DType, target: DType) -> None:
    if not is_lossless(source, target):
        return
    values = _values(TensorType((4000,), source), np.random.default_rng(0))
    with np.errstate(all="ignore"):
        _assert_same_bits(values.astype(target.numpy).astype(source.numpy), values)


def test_rules_have_laws_and_no_two_the_same() -> None:
    every = (*movement.RULES, *ranges.RULES, *arithmetic.RULES)
    laws = [rule.law for rule in every]
    squares = [law for law in laws if "squared" in law]
    assert len(set(laws)) == len(laws) - len(squares) + len(set(squares))


EFFECTS = """#[version = "0.0.5"]
def @next(%cell: ref(int32)) -> int32 {{
  let %old = ref_read(%cell);
  let %done = ref_write(%cell, %old * 10 + 1);
  %old
}}
def @main() -> (int32, int32) {{
  let %cell = ref(1);
  let %value = {body};
  (%value, ref_read(%cell))
}}
"""


@pytest.mark.parametrize(
    "body",
    [
        "@next(%cell) * 0",
        "@next(%cell) - @next(%cell)",
        "negative(@next(%cell)) + @next(%cell)",
        "negative(ref_read(%cell)) + @next(%cell)",
        "zeros_like(@next(%cell))",
        "@next(%cell) + 0",
        "@next(%cell) + 3 + 4",
    ],
)
def test_what_cells_see_stays(body: str) -> None:
    module = parse_module(EFFECTS.format(body=body))
    simpler = _simplified(module)
    assert Interpreter(simpler).run() == Interpreter(module).run()


def test_a_call_that_writes_is_simplified_around() -> None:
    text = print_module(_simplified(parse_module(EFFECTS.format(body="@next(%cell) + 3 + 4"))))
    assert re.search(r"@next\(%\w+\) \+ 7|add\(.*7\)", text), text


def test_a_chain_of_thousands_is_simplified_in_one_run() -> None:
    module = _module("%i" + " + 1" * 1500)
    assert is_equal_module(_simplified(module), _module("%i + 1500"))


def test_the_size_of_an_unsigned_number_is_the_number() -> None:
    text = "def @main(%x: Tensor[(3,), uint8]) { abs(negative(%x)) }"
    module = parse_module(f'#[version = "0.0.5"]\n{text}')
    assert is_equal_module(_simplified(module), module)
