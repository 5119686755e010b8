"""What TVM writes, read in our words: types, attributes, metadata, whole programs."""

from __future__ import annotations

import json
from base64 import b64encode
from struct import pack

import numpy as np
import pytest

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.relay_parser import parse_expr, parse_module
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.dtypes import DType
from codesign.ir.relay.equal import is_equal, is_equal_module
from codesign.ir.relay.expr import (
    Call,
    Constant,
    Function,
    Tuple,
)
from codesign.ir.relay.types import TensorType, TupleType, type_text
from codesign.ir.relay.visit import post_order
from tests.support.relay_text import HEAD, read_back
from tests.support.relay_values import run


def test_types_in_comments_and_lists_of_one_length() -> None:
    text = """
def @main(%x: Tensor[(3), float32] /* ty=Tensor[(3), float32] span=a:6:15 */) -> Leaf[] {
  let %r: ref(int32) /* ty=ref(int32) */ = ref(0 /* ty=int32 */);
  %0 = add(%x, 1f /* ty=float32 */) /* ty=Tensor[(3), float32] */;
  Node(%0) /* ty=Leaf[] */
}
type Leaf {
  Node(Tensor[(3), float32]),
}
"""
    module = parse_module(HEAD + text)
    assert is_equal_module(read_back(module), module)
    types = infer_types(module)
    assert type_text(types[module.main]) == "fn (Tensor[(3,), float32]) -> Leaf"


def _operator(text: str) -> Call:
    free = (
        "free_var %x: Tensor[(2, 3, 8, 8), float32]; free_var %w: Tensor[(4, 3, 3, 3), float32]; "
        "free_var %c: Tensor[(3), float32];"
    )
    found = parse_expr(free + text)
    assert isinstance(found, Call)
    return found


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("nn.conv2d(%x, %w, channels=4, kernel_size=[3, 3], padding=[1, 1, 1, 1])",
         "nn.conv2d(%x, %w, padding=[1, 1, 1, 1])"),
        ('nn.conv2d(%x, %w, padding=[1, 2], data_layout="NCHW", out_dtype="")',
         "nn.conv2d(%x, %w, padding=[1, 2, 1, 2])"),
        ("nn.max_pool2d(%x, pool_size=[2, 2], padding=[1])",
         "nn.max_pool2d(%x, pool_size=[2, 2], padding=[1, 1, 1, 1])"),
        ("nn.dense(%c, %w, units=None)", "nn.dense(%c, %w)"),
        ("reshape(%x, newshape=[0, -1])", "reshape(%x, shape=[2, -1])"),
        ('nn.conv1d(%x, %w, channels=4, kernel_size=[3], padding=[1], data_layout="NCW")',
         "nn.conv1d(%x, %w, padding=[1, 1])"),
        ("nn.conv3d(%x, %w, padding=[1, 2, 3])",
         "nn.conv3d(%x, %w, padding=[1, 2, 3, 1, 2, 3])"),
        ("any(%x, axis=[1], exclude=False)", "any(%x, axis=[1])"),
        ("strided_set(%x, %c, 1, 3, 1)",
         "strided_set(%x, %c, begin=[1], end=[3], strides=[1])"),
        ("concatenate((%x, %x))", "concatenate((%x, %x), axis=0)"),
        ("nn.leaky_relu(%x)", "nn.leaky_relu(%x, alpha=0.25)"),
        ("nn.relu(nn.dropout(%x, rate=0.2).0)", "nn.relu(nn.dropout(%x, rate=0.2))"),
        ("nn.relu(nn.batch_norm(%x, %c, %c, %c, %c, axis=1).0)",
         "nn.relu(nn.batch_norm(%x, %c, %c, %c, %c))"),
        ("nn.relu(nn.batch_norm(%x, %c, %c, %c, %c).1)", "nn.relu(%c)"),
        ("let %n = nn.batch_norm(%x, %c, %c, %c, %c); nn.relu(%n.0)",
         "let %n = nn.batch_norm(%x, %c, %c, %c, %c); nn.relu(%n)"),
        ("let %n = nn.batch_norm(%x, %c, %c, %c, %c); (%n.0, %n.1, %n.2)",
         "let %n = nn.batch_norm(%x, %c, %c, %c, %c); (%n, %c, %c)"),
        ("nn.batch_norm(%x, %c, %c, %c, %c, scale=False, center=False)", None),
    ],
)  # fmt: skip
def test_their_operators_in_our_words(theirs: str, ours: str | None) -> None:
    if ours is not None:
        head = "fn (%x: Tensor[(2, 3, 8, 8), float32], %w, %c) {"
        wanted, given = (parse_expr(head + text + "}") for text in (ours, theirs))
        assert is_equal(given, wanted)
        return
    constants = [each.value for each in post_order(_operator(theirs)) if isinstance(each, Constant)]
    ones, zeros = constants
    np.testing.assert_array_equal(ones, np.ones(3, np.float32), strict=True)
    np.testing.assert_array_equal(zeros, np.zeros(3, np.float32), strict=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('nn.conv2d(%x, %w, out_layout="NHWC")', "out_layout is 'NHWC', expected ''"),
        ("nn.conv2d(%x, %w, kernel_size=[5, 5])", "kernel_size is [5, 5], the weight has 3, 3"),
        ("nn.batch_norm(%x, %c, %c, %c, %c, axis=3)", "axis is 3, expected 1"),
        ("strided_set(%x, %c, %c, 3, 1)", "begin is computed"),
        ("argwhere(%x)", "hangs on values"),
        ("nn.dropout(%x, mode=1)", "no attribute 'mode'"),
        ('zeros(shape=3, dtype="int8")', "attribute 'shape' is 3"),
        ('ones(shape=[3], dtype="int9")', "attribute 'dtype' is 'int9'"),
        ("reshape(%c, newshape=[0, 0])", "reshape copies a length that there is not"),
        ("(fn (%y) { reshape(%y, newshape=[0, -1]) })(%x)", "annotate the variables"),
    ],
)
def test_what_we_compute_otherwise_is_refused(text: str, message: str) -> None:
    with pytest.raises(CodesignError) as caught:
        _operator(text)
    assert message in str(caught.value)


def _blob(value: np.ndarray, kind: int) -> str:
    """Return a tensor as TVM stores it, written field by field."""
    head = pack("<QQ", 0xDD5E40F096B4A13F, 0) + pack("<iii", 1, 0, value.ndim)
    dtype = pack("<BBH", kind, 1 if value.dtype == bool else value.dtype.itemsize * 8, 1)
    shape = b"".join(pack("<q", dim) for dim in value.shape)
    raw = value.tobytes()
    return b64encode(head + dtype + shape + pack("<q", len(raw)) + raw).decode()


def _table(*tensors: str) -> str:
    """Return TVM's metadata: node 1 maps kinds to arrays, node 2 lists the constants."""
    constants = [{"type_key": "relay.Constant", "attrs": {"data": str(i)}}
                 for i in range(len(tensors))]  # fmt: skip
    nodes = [
        {"type_key": ""},
        {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
        {"type_key": "Array", "data": [3 + i for i in range(len(tensors))]},
        *constants,
    ]
    return json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": tensors, "attrs": {}})


VALUES = [
    (np.array([[0.0, -0.0, np.inf], [np.nan, 1e-45, 2.5]], np.float32), 2),
    (np.array([-128, 127], np.int8), 0),
    (np.array([True, False, True]), 1),
    (np.zeros((0, 3), np.float32), 2),
    (np.asarray(5, np.int64), 0),
    (np.array([255], np.uint8), 1),
]


def test_their_metadata_is_read_bit_for_bit() -> None:
    body = ", ".join(f"meta[relay.Constant][{i}]" for i in range(len(VALUES)))
    table = _table(*(_blob(value, kind) for value, kind in VALUES))
    module = parse_module(f"{HEAD}def @main() {{ ({body},) }}\n#[metadata]\n{table}")
    assert isinstance(module.main.body, Tuple)
    for field, (value, _) in zip(module.main.body.fields, VALUES, strict=True):
        assert isinstance(field, Constant)
        assert (field.value.dtype, field.value.shape) == (value.dtype, value.shape)
        assert field.value.tobytes() == value.tobytes()
    assert is_equal_module(read_back(module), module)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (_table(), "it has 0 constants"),
        ('{"b64ndarrays": []}', "the fields nodes, b64ndarrays and root"),
        ('{"b64ndarrays": [], "nodes": [1], "root": 0}', "refers to what it has not"),
        (_table("AAAA"), "refers to what it has not"),
        (_table(_blob(np.zeros(3, np.int8), 7)), "a tensor begins with another head"),
        (_table(_blob(np.zeros(3, np.int8), 0)[:-4]), "int8[3] takes 3 bytes, found 0"),
    ],
)
def test_their_metadata_may_be_broken(table: str, message: str) -> None:
    with pytest.raises(CodesignError) as caught:
        parse_expr(f"meta[relay.Constant][0]\n#[metadata]\n{table}", "net.relay")
    assert message in str(caught.value)
    assert "--> net.relay:1:1" in str(caught.value)


def test_a_program_in_their_writing_runs() -> None:
    text = """
type Chain[A] {
  Link(A, Chain[A]),
  End,
}

def @main(%x: float32 /* ty=float32 */) -> float32 {
  %0 = End /* ty=Chain[float32] */;
  %1 = Link(%x, %0) /* ty=Chain[float32] */;
  %2 = Link(2f /* ty=float32 */, %1) /* ty=Chain[float32] */;
  @total(%2) /* ty=float32 */
}

def @total(%c: Chain[float32] /* ty=Chain[float32] */) -> float32 {
  match (%c) {
    Link(%h: float32 /* ty=float32 */, %t: Chain[float32] /* ty=Chain[float32] */) => {
      %3 = @total(%t) /* ty=float32 */;
      add(%h, %3) /* ty=float32 */
    },
    End => {
      0f /* ty=float32 */
    },
  }
}
"""
    assert run(text, 1.5) == 3.5
    module = parse_module(HEAD + text)
    assert is_equal_module(read_back(module), module)


def test_batch_norm_and_dropout_of_theirs_compute() -> None:
    text = f"""{HEAD}
def @main(%x: Tensor[(1, 2, 1, 1), float32], %g: Tensor[(2), float32], %b: Tensor[(2), float32]) {{
  %0 = nn.batch_norm(%x, %g, %b, %b, %g, epsilon=0f, scale=False);
  %1 = %0.0;
  %2 = nn.dropout(%1);
  %2.0
}}"""
    module = parse_module(text)
    assert infer_types(module)[module.main.body] == TensorType((1, 2, 1, 1), DType.FLOAT32)
    x = np.array([3.0, 5.0], np.float32).reshape(1, 2, 1, 1)
    g, b = np.array([4.0, 9.0], np.float32), np.array([1.0, 2.0], np.float32)
    value = Interpreter(module).run(x=x, g=g, b=b)
    wanted = (x.reshape(2) - b) / np.sqrt(g) + b
    np.testing.assert_allclose(np.asarray(value).reshape(2), wanted, rtol=1e-6)


def test_types_with_tuples_of_one() -> None:
    found = parse_expr("fn (%x: (int8,), %y: (int8)) { 1 }")
    assert isinstance(found, Function)
    one = TupleType((TensorType((), DType.INT8),))
    assert [param.annotation for param in found.params] == [one, one]
