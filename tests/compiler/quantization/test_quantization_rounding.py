"""Rounding that keeps results: moments against plain loops, errors against plain rounding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.quantization.forms import Affine
from codesign.compiler.quantization.layers import Seen, integer_layer
from codesign.compiler.quantization.moments import Moments
from codesign.compiler.quantization.params import Grid, QuantParams
from codesign.compiler.quantization.rounding import compensated, nearest
from codesign.dtypes import Array
from codesign.ir.relay.expr import Constant, Var
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.table import call


def _layer(weight: Array, attrs: Conv2DAttrs | None) -> Affine:
    name = "nn.dense" if attrs is None else "nn.conv2d"
    made = call(name, Var("x"), Constant(weight), attrs=attrs)
    return Affine(Var("x"), weight, np.zeros(len(weight)), (made,))


def _patches(data: Array, kernel: tuple[int, int], attrs: Conv2DAttrs) -> Array:
    """Return every patch [groups, positions, taps] by plain loops."""
    top, left, bottom, right = attrs.padding
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, attrs.dilation, strict=True)]
    found = []
    for n in range(len(padded)):
        for y in range(0, padded.shape[2] - extent[0] + 1, attrs.strides[0]):
            for x in range(0, padded.shape[3] - extent[1] + 1, attrs.strides[1]):
                patch = padded[n, :, y : y + extent[0] : attrs.dilation[0],
                               x : x + extent[1] : attrs.dilation[1]]  # fmt: skip
                found.append(patch.reshape(attrs.groups, -1))
    return np.stack(found, axis=1)


@pytest.mark.parametrize(
    "attrs",
    [
        Conv2DAttrs(),
        Conv2DAttrs(padding=(1, 0, 2, 1), strides=(2, 1)),
        Conv2DAttrs(groups=2, dilation=(1, 2)),
        Conv2DAttrs(groups=4, padding=(1, 1, 1, 1)),
    ],
)
def test_moments_of_a_convolution_are_those_of_its_patches(attrs: Conv2DAttrs) -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((4, 4 // attrs.groups, 3, 2)).astype(np.float32)
    moments = Moments(_layer(weight, attrs))
    samples = [rng.standard_normal((1, 4, 7, 6)).astype(np.float32) + 1 for _ in range(3)]
    for sample in samples:
        moments.add(sample)
    patches = np.concatenate([_patches(each, (3, 2), attrs) for each in samples], axis=1)
    np.testing.assert_allclose(moments.mean, patches.mean(axis=1), rtol=1e-5, atol=1e-6)
    assert moments.covariance is not None
    for group, found in zip(patches, moments.covariance, strict=True):
        np.testing.assert_allclose(found, np.cov(group.T, bias=True), rtol=1e-3, atol=1e-4)


def test_moments_of_a_product_are_those_of_its_rows() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    moments = Moments(_layer(np.ones((3, 5), np.float32), None))
    moments.add(rows)
    np.testing.assert_allclose(moments.mean[0], rows.mean(axis=0), rtol=1e-5, atol=1e-6)
    assert moments.covariance is not None
    np.testing.assert_allclose(
        moments.covariance[0], np.cov(rows.T, bias=True), rtol=1e-4, atol=1e-5
    )


def test_too_many_taps_have_a_mean_only() -> None:
    moments = Moments(_layer(np.ones((1, 3000), np.float32), None))
    moments.add(np.full((2, 3000), 2, np.float32))
    assert moments.covariance is None
    np.testing.assert_array_equal(moments.mean, 2)


@given(seed=st.integers(0, 2**32 - 1), taps=st.integers(1, 80), rank=st.integers(0, 5))
def test_compensation_is_never_worse_than_plain_rounding(seed: int, taps: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((2, taps, rank))
    covariance = factors @ factors.transpose(0, 2, 1)
    values = rng.uniform(-127, 127, (2, 3, taps))
    codes = compensated(values, covariance, 127)
    plain = nearest(values, 127)

    def error(found: Array) -> Array:
        difference = found - values
        return np.einsum("grk,gkl,grl->gr", difference, covariance, difference)

    assert np.all(np.abs(codes) <= 127)
    np.testing.assert_array_equal(codes, np.rint(codes))
    assert np.all(error(codes) <= error(plain) + 1e-9)


def test_taps_that_are_one_value_are_rounded_together() -> None:
    # All taps see the same value, so only the sum of the weights matters: 4 * 0.3 is nearly 1.
    codes = compensated(np.full((1, 1, 4), 0.3), np.ones((1, 4, 4)), 127)
    assert codes.sum() == 1
    assert nearest(np.full((1, 1, 4), 0.3), 127).sum() == 0


def test_independent_taps_are_rounded_to_the_nearest() -> None:
    values = np.random.default_rng(0).uniform(-127, 127, (1, 5, 20))
    np.testing.assert_array_equal(compensated(values, np.eye(20)[None], 127), nearest(values, 127))


def test_a_bias_makes_up_for_the_mean_of_rounding() -> None:
    weight = np.array([[1.27, 0.4 * 0.01]], np.float32)
    moments = Moments(_layer(weight, None))
    moments.add(np.full((4, 2), 10.0, np.float32))
    source, result = QuantParams(0.1, 0), Grid().covering(0.0, 20.0)
    layer = integer_layer(weight, np.array([0.0]), source, result, Seen(moments))
    # Codes are 127 and 0 or so; a constant input of 10 must give 12.74 whatever they are.
    total = layer.weight.astype(int).sum() * 100 + int(layer.bias[0])
    assert total * 0.1 * 0.01 == pytest.approx(12.74, abs=1e-3)
