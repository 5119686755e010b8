"""Gathers, pads, pools and resizing on lengths that are known at run time only."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.compiler.driver import compile  # noqa: A004
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from host_runtime.session import Session
from tests.support.native import native_module
from tests.support.relay_values import module_of

IMAGE = "%x: Tensor[(?, 2, ?, ?), float32]"
MATRIX = "%x: Tensor[(?, ?), float32]"
RANDOM = np.random.default_rng(8)
IMAGES = [
    (RANDOM.standard_normal((2, 2, 7, 5)).astype(np.float32),),
    (RANDOM.standard_normal((1, 2, 4, 9)).astype(np.float32),),
    (np.zeros((0, 2, 5, 5), np.float32),),
]
A = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
W = RANDOM.standard_normal((2, 3, 3, 2)).astype(np.float32)

PROGRAMS = {
    "gather_elements": (
        f"{MATRIX}, %i: Tensor[(?, ?), int32]",
        "(gather_elements(%x, %i, axis=1), gather_elements(%x, %i, axis=-2))",
        [(A, np.array([[0, -1], [2, 1]], np.int32)), (A, np.zeros((0, 3), np.int32))],
    ),
    "gather_nd": (
        f"{MATRIX}, %i: Tensor[(?, 2), int64], %j: Tensor[(?, ?, 1), int8]",
        "(gather_nd(%x, %i), gather_nd(%x, %j))",
        [
            (A, np.array([[0, -1], [2, 3], [-3, 0]]), np.array([[[1], [-1]]], np.int8)),
            (A, np.zeros((0, 2), np.int64), np.zeros((2, 0, 1), np.int8)),
        ],
    ),
    "edges": (
        MATRIX,
        '(nn.pad(%x, pad_width=[[1, 2], [0, 3]], pad_mode="edge"), '
        'nn.pad(%x, pad_width=[[2, 1], [0, 0]], pad_mode="reflect"), '
        'nn.pad(%x, pad_width=[[0, 0], [3, 2]], pad_mode="reflect"))',
        [(A,), (np.concatenate([A, A + 1]),)],
    ),
    "means": (
        IMAGE,
        "(nn.avg_pool2d(%x, pool_size=[3, 2], strides=[2, 1], padding=[1, 0, 2, 1]), "
        "nn.avg_pool2d(%x, pool_size=[2, 2], padding=[1, 1, 1, 0], count_include_pad=True), "
        "nn.avg_pool2d(%x, pool_size=[2, 2], dilation=[2, 3], padding=[2, 3, 1, 2]), "
        "nn.avg_pool2d(%x, pool_size=[3, 3], strides=[2, 3], padding=[1, 1, 1, 1], "
        "ceil_mode=True))",
        IMAGES,
    ),
    "maxima rounded up": (
        IMAGE,
        "nn.max_pool2d(%x, pool_size=[3, 2], strides=[2, 3], padding=[1, 1, 1, 1], ceil_mode=True)",
        IMAGES,
    ),
    "integers": (
        "%x: Tensor[(?, 2, ?, ?), int8]",
        "nn.avg_pool2d(%x, pool_size=[2, 2], padding=[1, 1, 1, 1])",
        [(RANDOM.integers(-128, 128, (2, 2, 5, 3)).astype(np.int8),)],
    ),
    "transposed": (
        f"{IMAGE}, %w: Tensor[(2, 3, 3, 2), float32]",
        "(nn.conv2d_transpose(%x, %w, strides=[2, 3], padding=[1, 0, 1, 2]), "
        "nn.conv2d_transpose(%x, %w, groups=2, dilation=[1, 2], strides=[2, 2], "
        "output_padding=[1, 0]))",
        [(each, W) for (each,) in IMAGES],
    ),
    "resized": (
        IMAGE,
        "("
        + ", ".join(
            f'image.resize2d(%x, size=[6, 4], method="{method}", '
            f'coordinate_transformation_mode="{mode}")'
            for method in ("linear", "nearest_neighbor")
            for mode in ("half_pixel", "asymmetric", "align_corners")
        )
        + ")",
        IMAGES,
    ),
    "resized to the nearest": (
        IMAGE,
        "("
        + ", ".join(
            f'image.resize2d(%x, size=[9, 3], method="nearest_neighbor", rounding_method="{how}")'
            for how in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        )
        + ")",
        IMAGES,
    ),
}


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


@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_on_unknown_lengths(name: str) -> None:
    params, body, cases = PROGRAMS[name]
    module = module_of(f"def @main({params}) {{ {body} }}")
    function = native_module(module)
    for args in cases:
        found = function(*args)
        _assert_close(found, Interpreter(module).result_of(module.main, list(args)))
        assert function.live_objects == 0


COMPOSED = """
def @main(%x: Tensor[(?, 2, ?, ?), float32], %y: Tensor[(?, ?), bool]) {
  (nn.batch_flatten(%x), argmin(%x, axis=2), all(%y, axis=[1]), any(%y), ndarray_size(%x),
   nn.space_to_batch_nd(%x, block_shape=[1], paddings=[[0, 0]]),
   nn.depth_to_space(transpose(%x, axes=[0, 2, 1, 3]), block_size=1),
   variance(%x, 0f, axis=[2, 3], unbiased=True),
   slice_like(nn.pad(%x, pad_width=[[0, 0], [0, 1], [2, 0], [1, 0]]), %x, axes=[1, 3]))
}
"""


def test_composed_operators_on_unknown_lengths() -> None:
    module = module_of(COMPOSED)
    session = Session(compile(module, level=0))
    y = np.array([[True, False], [True, True]])
    for (x,) in IMAGES[:2]:
        found = session.run({"x": x, "y": y})
        _assert_close(tuple(found.values()), Interpreter(module).result_of(module.main, [x, y]))


def test_what_needs_lengths_is_refused_by_name() -> None:
    module = module_of(f"def @main({MATRIX}) {{ cumsum(%x, axis=0) }}")
    with pytest.raises(CodesignError, match="cumsum is compiled for known lengths only"):
        compile(module)


MISFITS = {
    "gather_elements": (
        f"{MATRIX}, %i: Tensor[(?, ?), int32]",
        "gather_elements(%x, %i, axis=1)",
        (A, np.array([[0, 4]], np.int32)),
    ),
    "gather_elements beside": (
        f"{MATRIX}, %i: Tensor[(?, ?), int32]",
        "gather_elements(%x, %i, axis=1)",
        (A, np.zeros((4, 1), np.int32)),
    ),
    "gather_nd": (
        f"{MATRIX}, %i: Tensor[(?, 2), int32]",
        "gather_nd(%x, %i)",
        (A, np.array([[0, 3], [3, 0]], np.int32)),
    ),
    "reflect": (MATRIX, 'nn.pad(%x, pad_width=[[3, 0], [0, 0]], pad_mode="reflect")', (A,)),
    "edge": (MATRIX, 'nn.pad(%x, pad_width=[[1, 0], [0, 0]], pad_mode="edge")', (A[:0],)),
    "resize": (IMAGE, "image.resize2d(%x, size=[2, 2])", (np.zeros((1, 2, 0, 3), np.float32),)),
    "transposed": (
        f"{IMAGE}, %w: Tensor[(2, 3, 3, 2), float32]",
        "nn.conv2d_transpose(%x, %w, padding=[2, 0, 2, 0])",
        (IMAGES[0][0][:, :, :1], W),
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_lengths_and_places_that_do_not_fit_are_refused_by_both(name: str) -> None:
    params, body, args = MISFITS[name]
    module = module_of(f"def @main({params}) {{ {body} }}")
    function = native_module(module)
    with pytest.raises(CodesignError, match="--> <text>:2:"):
        function(*args)
    with pytest.raises(CodesignError, match="--> <text>:2:"):
        Interpreter(module).result_of(module.main, list(args))
