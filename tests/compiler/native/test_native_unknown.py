"""Operators on lengths that are known at run time only give the interpreter's answers."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from tests.support.native import native_module
from tests.support.relay_values import module_of, to_relay

X = "%x: Tensor[(?, ?), float32]"
Y = "%y: Tensor[(?, ?), float32]"
A = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
WIDE = np.random.default_rng(2).standard_normal((7, 33)).astype(np.float32)
NONE = np.zeros((0, 4), np.float32)
INTEGERS = A.astype(np.int32)

PROGRAMS = {
    "elementwise": (f"{X}", "nn.gelu(%x) + 1f", [(A,), (WIDE,), (NONE,)]),
    "chain": (f"{X}", "sigmoid(tanh(%x) * %x)", [(A,), (WIDE,), (A[:1, :1],)]),
    "broadcast": (f"{X}, %y: Tensor[(?,), float32]", "%x * %y",
                  [(A, A[0]), (A, A[0, :1]), (A[:, :1], A[0]), (NONE, A[0])]),
    "columns": (f"{X}, {Y}", "maximum(%x, %y)", [(A, A[:, :1]), (A[:1], A), (A, A)]),
    "comparison": (f"{X}, {Y}", "where(%x < %y, %x, 2f)", [(A, A[:1]), (A, A)]),
    "integers": ("%x: Tensor[(?, ?), int32], %y: Tensor[(?, ?), int32]", "%x / %y",
                 [(INTEGERS, INTEGERS[:, :1] * 2 + 1)]),
    "cast": (X, 'cast(%x, dtype="int8")', [(A,), (WIDE,)]),
    "clip": (X, "clip(%x, a_min=-1.0, a_max=2.0)", [(A,)]),
    "softmax": (X, "nn.softmax(%x, axis=-1)", [(A,), (WIDE,), (A[:, :0],)]),
    "log softmax": (X, "nn.log_softmax(%x, axis=0)", [(A,), (WIDE,)]),
    "dense": (f"{X}, {Y}", "nn.dense(%x, %y)", [(A, A), (A, A[:2]), (WIDE, WIDE), (NONE, A)]),
    "batch_matmul": (
        "%x: Tensor[(?, ?, ?), float32], %y: Tensor[(?, ?, ?), float32]",
        "nn.batch_matmul(%x, %y)",
        [(A.reshape(3, 2, 2), A.reshape(3, 2, 2)), (A[None], A[None, :2])],
    ),
    "rows together": (f"{X}, {Y}", "concatenate((%x, %y, %x), axis=0)", [(A, A[:2]), (NONE, A)]),
    "columns together": (f"{X}, {Y}", "concatenate((%x, %y), axis=1)", [(A, A[:, :1])]),
    "take": (f"{X}, %y: Tensor[(?,), int32]", "take(%x, %y, axis=1)",
             [(A, np.array([1, 3, -4], np.int32)), (A, np.zeros(0, np.int32))]),
    "transpose": (X, "transpose(%x)", [(A,), (WIDE,), (NONE,)]),
    "axes": (X, "squeeze(expand_dims(transpose(%x), axis=1), axis=[1])", [(A,)]),
    "reshape_like": (f"{X}, {Y}", "reshape_like(%x, %y)", [(A, A.reshape(6, 2))]),
    "like": (f"{X}, {Y}", "broadcast_to_like(%x, %y) + ones_like(%y) * zeros_like(%x)",
             [(A[:1], A), (A[:, :1], A)]),
    "sums": (X, "(sum(%x, axis=[0]), prod(%x, axis=[1], keepdims=True), sum(%x))",
             [(A,), (WIDE,), (NONE,)]),
    "extremes": (X, "(max(%x, axis=[0]), min(%x, axis=[-1]), max(%x))", [(A,), (WIDE,)]),
    "means": (X, "(mean(%x, axis=[0]), mean(%x, axis=[1], keepdims=True))", [(A,), (WIDE,)]),
    "places": (X, "(argmax(%x, axis=0), argmax(%x, axis=1, keepdims=True, "
               "select_last_index=True))", [(A,), (WIDE,), (A * 0,)]),
    "matmul": (f"{X}, {Y}", "nn.matmul(%x, %y)", [(A, A.T.copy()), (WIDE, WIDE.T.copy())]),
    "bias": (f"{X}, %y: Tensor[(?,), float32]", "nn.bias_add(%x, %y, axis=1)", [(A, A[0])]),
    "reshape": (X, "(reshape(%x, shape=[2, -1]), reshape(%x, shape=[4, 3]))", [(A,)]),
    "slice": (X, "(strided_slice(%x, begin=[1], end=[100]), "
              "strided_slice(%x, begin=[-2, 0], end=[3, 3], strides=[1, 2]), "
              "strided_slice(%x, begin=[5], end=[-100], strides=[-2], axes=[1]), "
              "strided_slice(%x, begin=[2], end=[1]))", [(A,), (WIDE,), (NONE,)]),
    "split": (X, "(split(%x, indices_or_sections=2, axis=1), "
              "split(%x, indices_or_sections=[1, 2], axis=0))", [(A,), (WIDE[:, :8],)]),
    "broadcast_to": ("%x: Tensor[(?, 1), float32]", "broadcast_to(%x, shape=[3, 5])",
                     [(A[:, :1],), (A[:1, :1],)]),
    "pad": (X, "nn.pad(%x, pad_width=[[1, 2], [0, -1]], pad_value=3.0)", [(A,), (WIDE,)]),
    "again": (X, "(reverse(%x, axis=0), repeat(%x, repeats=3, axis=1), tile(%x, reps=[2, 1, 3]))",
              [(A,), (NONE,)]),
    "stack": (f"{X}, {Y}", "(stack((%x, %y), axis=1), stack((%x, %y), axis=-1))", [(A, A + 1)]),
    "shape_of": (X, 'shape_of(%x, dtype="int32")', [(A,), (NONE,)]),
    "collapse": (f"{X}, {Y}", "collapse_sum_like(%x, %y)",
                 [(A, A[:1]), (A, A[:, :1]), (A, A), (A, A[:1, :1])]),
    "collapse more": (f"%x: Tensor[(?, ?, 4), float32], {Y}", "collapse_sum_like(%x, %y)",
                      [(np.stack([A, A + 1]), A[:1])]),
    "collapse to": (X, "collapse_sum_to(%x, shape=[1, 4])", [(A,)]),
    "told shape": (f"{X}, %s: Tensor[(2,), int64]", "dyn.reshape(%x, %s)",
                   [(A, np.array([6, 2])), (A, np.array([-1, 2])), (NONE, np.array([0, 7]))]),
    "told rows": (f"{X}, %s: Tensor[(3,), int32]", "dyn.broadcast_to(%x, %s)",
                  [(A, np.array([2, 3, 4], np.int32)), (A[:1], np.array([2, 5, 4], np.int32))]),
    "told number": ("%v: float32, %s: Tensor[(2,), int64]",
                    '(dyn.full(%v, %s), dyn.ones(%s, dtype="bool"), '
                    'dyn.zeros(%s, dtype="float16"))',
                    [(np.asarray(2.5, np.float32), np.array([2, 3]))]),
    "one_hot": ("%x: Tensor[(?,), int32]", "one_hot(%x, 2f, -1f, depth=4, axis=-1)",
                [(np.array([0, 3, 9, -1], np.int32),)]),
    "truth": (X, "if (True) { %x < 1f } else { %x < 2f }", [(A,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_on_unknown_lengths(name: str) -> None:
    params, body, cases = PROGRAMS[name]
    module = module_of(f"def @main({params}) {{ {body} }}")
    function = native_module(module)
    for args in cases:
        found = function(*args)
        _assert_close(found, Interpreter(module).result_of(module.main, list(args)))
        assert function.live_objects == 0


def _assert_close(found: object, expected: object) -> None:
    if isinstance(found, tuple):
        assert isinstance(expected, tuple)
        for one, other in zip(found, expected, strict=True):
            _assert_close(one, other)
        return
    assert isinstance(found, np.ndarray)
    assert isinstance(expected, np.ndarray)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


IMAGES = """
def @main(%x: Tensor[(?, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
  let %y = nn.relu(nn.conv2d(%x, %w, padding=[1, 1, 1, 1]));
  let %z = nn.max_pool2d(%y, pool_size=[2, 2], strides=[2, 2]);
  (nn.global_avg_pool2d(%z), sum(%z, axis=[2, 3]), transpose(%z, axes=[0, 2, 3, 1]))
}
"""


SIZES = """
def @main(%x: Tensor[(?, 3, ?, ?), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
  let %y = nn.relu(nn.conv2d(%x, %w, padding=[1, 0, 2, 1], strides=[2, 1]));
  let %z = nn.max_pool2d(%y, pool_size=[2, 2], padding=[1, 1, 0, 0]);
  (%y, %z, nn.global_avg_pool2d(%z), nn.global_max_pool2d(%z))
}
"""


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (2, 3, 5, 11), (0, 3, 4, 4)])
def test_images_of_an_unknown_size(shape: tuple[int, ...]) -> None:
    module = module_of(SIZES)
    random = np.random.default_rng(4)
    x = random.standard_normal(shape).astype(np.float32)
    w = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    function = native_module(module)
    _assert_close(function(x, w), Interpreter(module).result_of(module.main, [x, w]))
    assert function.live_objects == 0
    with pytest.raises(CodesignError, match="has no output along its width"):
        function(x[..., :1], w)


def test_a_loss_over_an_unknown_batch() -> None:
    text = (
        "def @main(%x: Tensor[(?, 5), float32], %t: Tensor[(?, 5), float32]) "
        "{ (nn.cross_entropy(nn.softmax(%x, axis=-1), %t), "
        "nn.cross_entropy_with_logits(nn.log_softmax(%x, axis=-1), %t)) }"
    )
    module = module_of(text)
    x = np.random.default_rng(5).standard_normal((7, 5)).astype(np.float32)
    targets = np.eye(5, dtype=np.float32)[[0, 3, 1, 4, 2, 2, 0]]
    function = native_module(module)
    expected = Interpreter(module).result_of(module.main, [x, targets])
    _assert_close(function(x, targets), expected)
    assert function.live_objects == 0


@pytest.mark.parametrize("samples", [0, 1, 5])
def test_images_in_an_unknown_number(samples: int) -> None:
    module = module_of(IMAGES)
    random = np.random.default_rng(3)
    x = random.standard_normal((samples, 3, 8, 8)).astype(np.float32)
    w = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    function = native_module(module)
    _assert_close(function(x, w), Interpreter(module).result_of(module.main, [x, w]))
    assert function.live_objects == 0


MISFITS = {
    "broadcast": (f"{X}, {Y}", "%x + %y", (A, A[:, :2])),
    "dense": (f"{X}, {Y}", "nn.dense(%x, %y)", (A, A[:, :2])),
    "concatenate": (f"{X}, {Y}", "concatenate((%x, %y), axis=0)", (A, A[:, :2])),
    "take": (f"{X}, %y: Tensor[(?,), int32]", "take(%x, %y, axis=1)",
             (A, np.array([4], np.int32))),
    "divide": ("%x: Tensor[(?, ?), int32], %y: Tensor[(?, ?), int32]", "%x / %y",
               (INTEGERS, INTEGERS * 0)),
    "squeeze": (X, "squeeze(%x, axis=[1])", (A,)),
    "reshape": (X, "reshape(%x, shape=[5, -1])", (A,)),
    "told shape": (f"{X}, %s: Tensor[(2,), int64]", "dyn.reshape(%x, %s)", (A, np.array([-1, -1]))),
    "told rows": (f"{X}, %s: Tensor[(2,), int64]", "dyn.broadcast_to(%x, %s)",
                  (A, np.array([4, 4]))),
    "told number": ("%s: Tensor[(2,), int64]", "dyn.full(1f, %s)", (np.array([2, -1]),)),
    "collapse": (f"{X}, {Y}", "collapse_sum_like(%x, %y)", (A, A[:2])),
    "stack": (f"{X}, {Y}", "stack((%x, %y), axis=0)", (A, A[:2])),
    "split": (X, "split(%x, indices_or_sections=2, axis=0)", (A,)),
    "max": (X, "max(%x, axis=[0])", (NONE,)),
    "mean": (X, "mean(%x, axis=[0])", (NONE,)),
    "matmul": (f"{X}, {Y}", "nn.matmul(%x, %y)", (A, A)),
    "reshape_like": (f"{X}, {Y}", "reshape_like(%x, %y)", (A, A[:2])),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_lengths_that_do_not_fit_are_refused_by_both(name: str) -> None:
    params, body, args = MISFITS[name]
    module = module_of(f"def @main({params}) {{ {body} }}")
    function = native_module(module)
    for _ in range(2):
        with pytest.raises(CodesignError, match="--> <text>:2:"):
            function(*args)
    with pytest.raises(CodesignError, match="--> <text>:2:"):
        Interpreter(module).result_of(module.main, list(args))


NAMED = """
def @f(%p: (Tensor[(n,), float32], Tensor[(n, m), float32])) { %p.0 * 2f }
def @main(%x: Tensor[(?,), float32], %y: Tensor[(?, ?), float32]) { @f((%x, %y)) }
"""


def test_a_name_of_two_lengths_is_refused() -> None:
    module = module_of(NAMED)
    function = native_module(module)
    np.testing.assert_array_equal(function(A[:, 0], A), A[:, 0] * 2)
    with pytest.raises(CodesignError, match="n is two lengths"):
        function(A[0], A)
    with pytest.raises(CodesignError, match="n is two lengths"):
        Interpreter(module).result_of(module.main, [A[0], A])


GROW = """
def @grow(%x: Tensor[(?, 4), float32], %n: int32) -> Tensor[(?, 4), float32] {
  if (%n == 0) { %x } else { @grow(concatenate((%x, %x + 1f), axis=0), %n - 1) }
}
def @main(%x: Tensor[(3, 4), float32], %n: int32) { nn.relu(@grow(%x, %n)) }
"""


@pytest.mark.parametrize("turns", [0, 1, 6])
def test_a_tensor_grows_in_a_recursion(turns: int) -> None:
    module = module_of(GROW)
    function = native_module(module)
    args = [A, to_relay(turns)]
    found = function(*args)
    np.testing.assert_array_equal(found, Interpreter(module).result_of(module.main, args))
    assert function.live_objects == 0


@pytest.mark.parametrize("shape", [(1 << 33, 1 << 33), (1 << 40, 1)])
def test_lengths_beyond_all_memory_are_an_error(shape: tuple[int, int]) -> None:
    function = native_module(module_of("def @main(%s: Tensor[(2,), int64]) { dyn.full(1f, %s) }"))
    with pytest.raises(CodesignError, match="memory"):
        function(np.array(shape))
    assert function(np.array([1, 2])).tolist() == [[1.0, 1.0]]


def test_what_has_no_kernel_is_refused_by_name() -> None:
    module = module_of(f"def @main({X}) {{ cumsum(%x, axis=0) }}")
    with pytest.raises(CodesignError, match="cumsum is not compiled for shapes"):
        native_module(module)
