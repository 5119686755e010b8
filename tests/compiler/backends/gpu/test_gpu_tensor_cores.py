"""Products on tensor cores: fragments, every kind and tile, against NumPy in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.compiler.backends.gpu.contraction import product_in
from codesign.compiler.backends.gpu.device import DEVICES, device_for
from codesign.compiler.backends.gpu.execute import execute
from codesign.compiler.backends.gpu.nvptx import ptx
from codesign.compiler.backends.gpu.tensor_core import (
    _TILES,
    MatrixProduct,
    MatrixTile,
    _Writer,
    in_parts,
    matrix_product,
    plan,
)
from codesign.compiler.backends.gpu.warp import exchanged, matrix_elements, multiplied, rounded
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Constant, Expr, Var
from codesign.ir.relay.types import TensorType
from codesign.ir.simt.matrix import Mma
from codesign.ir.tensor.compute import Fn, Literal, Load, Reduce, Reduction, apply, convert
from codesign.ir.tensor.index import Axis, at
from codesign.ir.tensor.kernel import Stage
from codesign.ir.tensor.layout import Buffer
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.table import call
from tests.support.gpu_battery import on_gpu

_DEVICE = DEVICES["sm_80"]
_SMALL = MatrixTile(32, 32, 16, 16, 4, 0.3)
_ERRORS = {Mma.F16: 1e-6, Mma.TF32: 2e-3, Mma.SPLIT: 1e-6, Mma.BF16: 1e-2, Mma.S8: 0.0}


def _random(kind: Mma, *shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    if kind is Mma.S8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.standard_normal(shape).astype(kind.shape.factor.numpy)


def _matrices(
    kind: Mma, shape: tuple[int, int, int], turned: tuple[bool, bool]
) -> tuple[MatrixProduct, tuple[Buffer, ...]]:
    """Return `target[m, n] = sum of left * right`, the factors stored by rows or by columns."""
    (m, n, k), (left_turned, right_turned) = shape, turned
    axes = Axis("m", m), Axis("n", n), Axis("k", k)
    row, column, depth = map(at, axes)
    left = Buffer("a", (k, m) if left_turned else (m, k), kind.shape.factor)
    right = Buffer("b", (k, n) if right_turned else (n, k), kind.shape.factor)
    factors = (
        Load(left, (depth, row) if left_turned else (row, depth)),
        Load(right, (depth, column) if right_turned else (column, depth)),
    )
    sums = kind.shape.sums
    body = apply(Fn.MULTIPLY, *(convert(each, sums) for each in factors))
    total = Reduce(Reduction.SUM, (axes[2],), body, Literal(0, sums))
    target = Buffer("target", (m, n), sums)
    product = product_in(Stage(target, (row, column), axes[:2], total), total)
    assert product is not None
    found = matrix_product(product, replace(_DEVICE, float32=kind))
    assert found is not None
    return found, (left, right, target)


def _error(
    kind: Mma,
    shape: tuple[int, int, int],
    turned: tuple[bool, bool] = (False, False),
    tile: MatrixTile = _SMALL,
) -> float:
    product, operands = _matrices(kind, shape, turned)
    assert product.kind is kind
    a, b = (_random(kind, *buffer.shape) for buffer in operands[:2])
    target = np.zeros(operands[2].elements, kind.shape.sums.numpy)
    execute(_Writer(product, tile).kernel(operands), [a.reshape(-1), b.reshape(-1), target])
    left, right = (each.astype(np.float64) for each in (a, b))
    exact = (left.T if turned[0] else left) @ (right if turned[1] else right.T)
    return float(np.abs(target.reshape(exact.shape) - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize("kind", list(Mma))
def test_lanes_hold_every_element_once(kind: Mma) -> None:
    m, n, k = kind.shape.m, kind.shape.n, kind.shape.k
    for place, elements, shape in (
        (kind.left_place, kind.left_elements, (m, k)),
        (kind.right_place, kind.right_elements, (k, n)),
        (kind.sums_place, kind.sums_elements, (m, n)),
    ):
        held = [place(lane, each) for lane in range(32) for each in range(elements)]
        assert sorted(held) == [
            (row, column) for row in range(shape[0]) for column in range(shape[1])
        ]


def test_fragments_are_those_of_the_instruction_set() -> None:
    """From the figures of PTX ISA, section 9.7.14.5, for lane 5: group 1, turn 1."""
    half = [Mma.F16.left_place(5, each) for each in range(8)]
    assert half == [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11)]
    assert [Mma.F16.right_place(5, each) for each in range(4)] == [(2, 1), (3, 1), (10, 1), (11, 1)]
    assert [Mma.TF32.left_place(5, each) for each in range(4)] == [(1, 1), (9, 1), (1, 5), (9, 5)]
    assert [Mma.TF32.right_place(5, each) for each in range(2)] == [(1, 1), (5, 1)]
    bytes_ = [Mma.S8.left_place(5, each) for each in (0, 3, 4, 8, 12)]
    assert bytes_ == [(1, 4), (1, 7), (9, 4), (1, 20), (9, 20)]
    assert [Mma.S8.right_place(5, each) for each in (0, 4)] == [(4, 1), (20, 1)]
    assert [Mma.F16.sums_place(5, each) for each in range(4)] == [(1, 2), (1, 3), (9, 2), (9, 3)]


def test_lanes_exchange_and_read_matrices_as_they_should() -> None:
    values = np.arange(64)
    np.testing.assert_array_equal(exchanged(values, 5), [lane ^ 5 for lane in range(64)])
    rows = np.arange(16).reshape(1, 2, 8) * 100
    plain = matrix_elements(rows, 2, transposed=False)
    assert plain[:, 5].tolist() == [102, 103, 902, 903]  # row 1, elements 2 and 3
    turned = matrix_elements(rows, 2, transposed=True)
    assert turned[:, 5].tolist() == [201, 301, 1001, 1101]  # column 1 of rows 2 and 3
    assert matrix_elements(rows, 4, transposed=False)[:, 5].tolist() == [101, 901]


def test_rounding_is_to_the_nearest() -> None:
    one = np.float32(1)
    values = np.array([one + 2**-11, one + 2**-12, np.inf, -one - 2**-11], np.float32)
    found = rounded(values, 11)
    np.testing.assert_array_equal(found, np.array([1 + 2**-10, 1, np.inf, -1 - 2**-10], np.float32))


def test_split_products_keep_infinity() -> None:
    left = np.zeros((4, 32), np.float32)
    left[0] = np.inf
    found = multiplied(Mma.SPLIT, np.zeros((4, 32), np.float32), left, np.ones((2, 32), np.float32))
    assert np.isposinf(found[:2]).all()
    np.testing.assert_array_equal(found[2:], 0)


@pytest.mark.parametrize("kind", list(Mma))
def test_products_are_numpys(kind: Mma) -> None:
    assert _error(kind, (21, 35, 159)) <= _ERRORS[kind]
    assert _error(kind, (40, 24, 96)) <= _ERRORS[kind]


@pytest.mark.parametrize("turned", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", [Mma.F16, Mma.SPLIT, Mma.S8])
def test_factors_may_lie_by_columns(kind: Mma, turned: tuple[bool, bool]) -> None:
    assert _error(kind, (24, 40, 72), turned) <= _ERRORS[kind]
    assert _error(kind, (21, 35, 33), turned) <= _ERRORS[kind]


@pytest.mark.parametrize(
    "tile",
    [
        pytest.param(tile, marks=[pytest.mark.slow] if tile.m * tile.n > 4096 else [])
        for tile in _TILES
    ],
    ids=lambda tile: f"{tile.m}x{tile.n}",
)
def test_every_tile_is_right(tile: MatrixTile) -> None:
    assert _error(Mma.F16, (tile.m, tile.n, 72), tile=tile) <= _ERRORS[Mma.F16]


@pytest.mark.parametrize("kind", [Mma.F16, Mma.SPLIT])
def test_a_long_sum_of_few_results_is_taken_in_parts(kind: Mma) -> None:
    few, _ = _matrices(kind, (49, 512, 4608), (False, False))
    many, _ = _matrices(kind, (4096, 4096, 4096), (False, False))
    assert plan(few, _DEVICE)[1] > 1
    assert plan(many, _DEVICE)[1] == 1
    m, n, k = 20, 24, 250
    product, operands = _matrices(kind, (m, n, k), (False, False))
    found = in_parts(product, operands, _DEVICE, _SMALL, 3)
    a, b = (_random(kind, *buffer.shape) for buffer in operands[:2])
    partial = np.full(found.partial.elements, np.nan, np.float32)
    target = np.zeros(m * n, np.float32)
    factors = [a.reshape(-1), b.reshape(-1)]
    execute(found.multiply, [*factors, partial])
    execute(found.join, [*factors, partial, target])
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(target.reshape(m, n), exact, atol=1e-5 * np.abs(exact).max())


def test_ptx_has_the_instructions_of_tensor_cores() -> None:
    product, operands = _matrices(Mma.F16, (64, 64, 64), (False, True))
    text = ptx({"k": _Writer(product, _SMALL).kernel(operands)}, _DEVICE)
    for part in (
        "cp.async.cg.shared.global [%",
        "cp.async.wait_group",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "st.global.v2.b32",
    ):
        assert part in text


def _windows(image: Array, size: int, pad: int) -> Array:
    padded = np.pad(image, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_convolutions_keep_channels_last(dtype: type) -> None:
    rng = np.random.default_rng(0)
    image, first, second = (
        (rng.standard_normal(shape) / 4).astype(dtype)
        for shape in ((2, 3, 6, 7), (8, 3, 3, 3), (16, 8, 1, 1))
    )
    x = Var("x", TensorType(image.shape, DType.of(image.dtype)))
    attrs = Conv2DAttrs(padding=(1, 1, 1, 1))
    inner = call("nn.relu", call("nn.conv2d", x, Constant(first), attrs=attrs))
    function = on_gpu(call("nn.conv2d", inner, Constant(second)), (x,))
    assert len(function.program.launches) == 2  # no copy between layouts
    (found,) = function.run([image])
    hidden = np.einsum("ncyxij,kcij->nkyx", *map(np.float64, (_windows(image, 3, 1), first)))
    hidden = np.maximum(hidden, 0).astype(dtype).astype(np.float64)
    expected = np.einsum("ncyx,kc->nkyx", hidden, second[:, :, 0, 0].astype(np.float64))
    np.testing.assert_allclose(
        found, expected, rtol=2e-3, atol=2e-3 if dtype == np.float16 else 1e-5
    )


def test_int8_is_multiplied_as_it_is_whatever_its_zero_point() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(-128, 128, (1, 16, 6, 6)).astype(np.int8)
    weight = rng.integers(-127, 128, (8, 16, 3, 3)).astype(np.int8)
    x = Var("x", TensorType(image.shape, DType.INT8))
    attrs = QConv2DAttrs(padding=(1, 1, 1, 1), zero_point=-7)
    function = on_gpu(call("qnn.conv2d", x, Constant(weight), attrs=attrs), (x,))
    kernel = function.program.launches[-1].kernel
    assert {buffer.dtype for buffer in kernel.shared} == {DType.INT8}
    (found,) = function.run([image])
    windows = _windows(image.astype(np.int64) + 7, 3, 1)
    np.testing.assert_array_equal(
        found, np.einsum("ncyxij,kcij->nkyx", windows, weight.astype(np.int64))
    )


def test_a_device_is_taken_as_its_nearest_model() -> None:
    model = device_for("sm_100", 148, 228 * 1024)
    assert (model.architecture, model.multiprocessors) == ("sm_90", 148)
    assert device_for("sm_87", 16, 100 * 1024).architecture == "sm_86"


def _attention(q: Expr, k: Expr, v: Expr, mask: Expr, scale: Array) -> Expr:
    scores = call("nn.batch_matmul", q, k)
    scores = call("add", call("multiply", scores, Constant(scale)), mask)
    return call("nn.matmul", call("nn.softmax", scores), v)


@pytest.mark.parametrize(
    ("dtype", "kind", "error"),
    [
        (np.float32, Mma.SPLIT, 1e-6),
        (np.float32, Mma.TF32, 2e-3),
        (np.float32, Mma.BF16, 2e-2),
        (np.float16, Mma.SPLIT, 2e-3),
    ],
)
def test_attention_is_one_kernel(dtype: type, kind: Mma, error: float) -> None:
    rng = np.random.default_rng(0)
    batch, queries, keys, width = 2, 19, 70, 24
    q, k, v = (
        rng.standard_normal((batch, rows, width)).astype(dtype) for rows in (queries, keys, keys)
    )
    mask = np.where(rng.random((1, keys)) < 0.3, -np.inf, 0).astype(dtype)
    mask[0, :64] = -np.inf  # the first tile of keys does not count at all
    mask[0, 66] = 0
    arrays = (q, k, v, mask)
    params = tuple(
        Var(f"x{n}", TensorType(each.shape, DType.of(each.dtype))) for n, each in enumerate(arrays)
    )
    scale = np.asarray(width**-0.5, dtype)
    function = on_gpu(_attention(*params, scale), params, replace(_DEVICE, float32=kind))
    assert [launch.label for launch in function.program.launches] == ["attention"]
    (found,) = function.run(arrays)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) * float(scale) + mask
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = powers / powers.sum(axis=-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(found, expected, atol=error)


@pytest.mark.parametrize("shape", [(3, 5, 20), (2, 1030), (40, 512)])
def test_softmax_is_one_kernel(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x = Var("x", TensorType(shape, DType.FLOAT32))
    function = on_gpu(call("nn.softmax", x), (x,))
    assert len(function.program.launches) == 1
    (found,) = function.run([values])
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(axis=-1, keepdims=True), rtol=1e-5)


def test_layer_norm_is_one_kernel() -> None:
    rng = np.random.default_rng(0)
    values, gamma, beta = (rng.standard_normal(n).astype(np.float32) for n in ((6, 100), 100, 100))
    x = Var("x", TensorType((6, 100), DType.FLOAT32))
    function = on_gpu(call("nn.layer_norm", x, Constant(gamma), Constant(beta)), (x,))
    assert len(function.program.launches) == 1
    (found,) = function.run([values])
    spread = np.sqrt(values.var(axis=-1, keepdims=True) + 1e-5)
    expected = (values - values.mean(axis=-1, keepdims=True)) / spread * gamma + beta
    np.testing.assert_allclose(found, expected, atol=2e-6)
