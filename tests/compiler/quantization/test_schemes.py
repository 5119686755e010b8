"""Schemes of bits, ways to choose ranges, and scales of powers of two."""

from __future__ import annotations

import math

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.quantization import (
    QuantizationConfig,
    Quantized,
    RangeMethod,
    Scheme,
    quantize,
)
from codesign.compiler.quantization.divergence import divergence, least_divergence
from codesign.compiler.quantization.histogram import Histogram
from codesign.compiler.quantization.layers import Seen, sums
from codesign.compiler.quantization.params import Grid, QuantParams, powers_of_two
from codesign.compiler.quantization.ranges import choose
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.qnn.conv2d import QConv2DAttrs
from codesign.ops.qnn.dense import QDenseAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from codesign.ops.table import call
from host_runtime.session import Session

PAD = Conv2DAttrs(padding=(1, 1, 1, 1))


def _f(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def _network() -> Module:
    """A residual block, a function that needs a table or floating point, a pool and a product."""
    data = Var("x", TensorType((1, 6, 8, 8), DType.FLOAT32))
    first = call("nn.relu", call("nn.conv2d", data, Constant(_f(8, 6, 3, 3)), attrs=PAD))
    second = call("nn.conv2d", first, Constant(_f(8, 8, 3, 3, seed=1)), attrs=PAD)
    body: Expr = call("nn.hard_swish", call("add", second, first))
    body = call("nn.global_avg_pool2d", call("nn.conv2d", body, Constant(_f(8, 8, 1, 1))))
    body = call("nn.dense", call("nn.batch_flatten", body), Constant(_f(5, 8)))
    return Module({"main": Function((data,), body)})


@pytest.fixture(scope="module")
def samples() -> list[dict[str, Array]]:
    return [{"x": _f(1, 6, 8, 8, seed=seed)} for seed in range(16)]


def _quantized(samples: list[dict[str, Array]], **options: object) -> Quantized:
    config = QuantizationConfig(compensate=False, **options)  # type: ignore[arg-type]
    return quantize(_network(), samples, config=config)


def _sqnr_db(made: Quantized) -> float:
    signal = noise = 0.0
    for seed in range(50, 56):
        inputs = {"x": _f(1, 6, 8, 8, seed=seed)}
        wanted = np.asarray(Interpreter(_network()).run(**inputs), np.float64)
        found = np.asarray(Interpreter(made.module).run(**inputs), np.float64)
        signal += float(np.square(wanted).sum())
        noise += float(np.square(found - wanted).sum())
    return 10 * math.log10(signal / noise)


LEAST_DB = {Scheme.INT8_SUMS16: 12, Scheme.INT8_SUMS32: 20, Scheme.INT16_SUMS32: 60}


@pytest.mark.parametrize("scheme", Scheme)
def test_a_scheme_gives_its_types_and_is_near_fp32(scheme: Scheme, samples) -> None:
    made = _quantized(samples, scheme=scheme, method=RangeMethod.MINMAX)
    attrs = [
        node.attrs
        for node in post_order(made.module.main.body)
        if isinstance(node, Call) and isinstance(node.callee, OpRef)
    ]
    layers = [each for each in attrs if isinstance(each, QConv2DAttrs | QDenseAttrs)]
    codes = [each for each in attrs if isinstance(each, QuantizeAttrs)]
    assert len(layers) == 4
    assert {each.dtype for each in layers} == {scheme.sums}
    assert {each.dtype for each in codes} == {scheme.codes}
    assert made.report.scheme is scheme
    assert _sqnr_db(made) > LEAST_DB[scheme]


@pytest.mark.parametrize("scheme", Scheme)
def test_the_cpu_computes_a_scheme_to_the_bit(scheme: Scheme, samples) -> None:
    made = _quantized(samples, scheme=scheme)
    session = Session(driver.compile(made))
    for seed in range(50, 53):
        inputs = {"x": _f(1, 6, 8, 8, seed=seed)}
        wanted = Interpreter(made.module).run(**inputs)
        found = session.run(inputs)["output"]
        if scheme is Scheme.INT16_SUMS32:  # hard_swish is floating point: the last bit may differ
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
        else:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("scheme", [Scheme.INT8_SUMS16, Scheme.INT16_SUMS32])
def test_the_accelerator_names_what_it_cannot_hold(scheme: Scheme, samples) -> None:
    executable = driver.compile(_quantized(samples, scheme=scheme), target="accel",
                                config=preset("tiny"))  # fmt: skip
    reasons = [each.reason for each in executable.placements if each.operator == "qnn.conv2d"]
    said = "sums of 16 bits" if scheme is Scheme.INT8_SUMS16 else "int8 tensors, not"
    said_too = "its sums leave"
    assert reasons
    assert all(said in each or said_too in each for each in reasons)
    assert any(said in each for each in reasons)


def test_weights_are_held_so_small_that_sums_fit() -> None:
    rng = np.random.default_rng(5)
    weight, data = rng.standard_normal((4, 256)), rng.standard_normal((2000, 256))
    source = QuantParams(4 / 127, 0)
    peaks = np.abs(data @ weight.T).max(axis=0)
    config = QuantizationConfig(scheme=Scheme.INT8_SUMS16, headroom=1.5)
    made = sums(weight, np.zeros(4), source, Seen(peaks=peaks), config)
    assert np.abs(made.weight).max() <= 64
    exact = source.codes(data) @ made.weight.T.astype(np.int64)
    greatest = np.abs(exact).max(axis=0)
    # A headroom of 1.5 leaves a third of 16 bits; rounding of weights takes its share of that.
    assert np.all(greatest < 32768 / 1.2)
    assert np.all(greatest > 32768 / 3)
    assert any("sums fit 16 bits" in note for note in made.notes)


@pytest.mark.parametrize("method", RangeMethod)
@pytest.mark.parametrize("power_of_two", [False, True])
def test_every_way_to_choose_ranges(method: RangeMethod, power_of_two: bool, samples) -> None:
    made = _quantized(samples, method=method, power_of_two=power_of_two)
    scales = [layer.scale for layer in made.report.layers if layer.scale is not None]
    assert scales
    if power_of_two:
        assert all(math.frexp(scale)[0] == 0.5 for scale in scales)
    if method is RangeMethod.GLOBAL:
        assert len(set(scales)) == 1
    assert _sqnr_db(made) > (5 if method is RangeMethod.GLOBAL else 12)


def test_one_range_for_all_is_the_one_that_is_given(samples) -> None:
    made = _quantized(samples, method=RangeMethod.GLOBAL, global_range=8.0, power_of_two=True)
    scales = {layer.scale for layer in made.report.layers if layer.scale is not None}
    assert scales == {2 * 8.0 / 256}


def test_one_scale_for_all_channels_loses_to_one_each(samples) -> None:
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((3, 10)) * np.array([[1.0], [10.0], [0.1]])
    source = QuantParams(0.01, 0)
    each = sums(weight, np.zeros(3), source)
    one = sums(weight, np.zeros(3), source, config=QuantizationConfig(per_channel=False))
    assert len(set(one.scale)) == 1
    assert len(set(each.scale)) == 3
    np.testing.assert_allclose(one.scale[1], each.scale[1])


def test_powers_of_two_are_the_least_that_cover() -> None:
    steps = np.array([1.0, 1.5, 2.0, 0.24, 1e-6, 3e8])
    found = powers_of_two(steps)
    assert all(math.log2(each).is_integer() for each in found)
    assert np.all(found >= steps)
    assert np.all(found / 2 < steps)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (0.0, 6.0), (-2.5, 0.0), (-7.0, 7.0)])
@pytest.mark.parametrize("power_of_two", [False, True])
def test_a_grid_covers_what_it_is_asked_to(
    dtype: DType, low: float, high: float, power_of_two: bool
) -> None:
    grid = Grid(dtype, power_of_two)
    params = grid.covering(low, high)
    slack = params.scale / 2 + 1e-6
    assert params.low <= low + slack
    assert params.high >= high - slack
    assert params.values(params.codes(np.zeros(1))) == 0
    assert grid.covering(params.low, params.high) == params


# ---- Kullback-Leibler divergence


def _divergence_by_hand(counts: list[int], threshold: int, levels: int) -> float:
    """As published, one bin at a time."""
    inside = [float(each) for each in counts[:threshold]]
    reference = [*inside]
    reference[-1] += sum(counts[threshold:])
    spread = [0.0] * threshold
    for level in range(levels):
        first, last = level * threshold // levels, (level + 1) * threshold // levels
        holding = [place for place in range(first, last) if inside[place] > 0]
        for place in holding:
            spread[place] = sum(inside[first:last]) / len(holding)
    total, kept = sum(reference), sum(spread)
    least = 1e-4 / threshold
    return sum(
        p / total * math.log((p / total) / max(q / kept, least))
        for p, q in zip(reference, spread, strict=True)
        if p > 0
    )


@pytest.mark.parametrize("seed", range(4))
def test_divergence_equals_its_definition(seed: int) -> None:
    counts = np.random.default_rng(seed).poisson(np.linspace(40, 0, 300)).astype(np.int64)
    for threshold in (64, 65, 127, 200, 300):
        found = divergence(counts, threshold, 64)
        assert found == pytest.approx(_divergence_by_hand(list(counts), threshold, 64), rel=1e-9)


def test_least_divergence_leaves_strangers_out() -> None:
    values = np.random.default_rng(1).standard_normal(200_000)
    plain, spoiled = Histogram(), Histogram()
    plain.add(values)
    spoiled.add(np.append(values, [60.0, -60.0]))
    assert 3.0 < least_divergence(plain, DType.INT8) < 5.0
    assert 3.0 < least_divergence(spoiled, DType.INT8) < 5.0
    config = QuantizationConfig(method=RangeMethod.KL)
    assert choose(spoiled, config).high < 5.0
    assert choose(spoiled, QuantizationConfig(method=RangeMethod.MINMAX)).high > 59.0


def test_zeros_say_nothing_about_the_range() -> None:
    values = np.abs(np.random.default_rng(1).standard_normal(100_000))
    histogram = Histogram()
    histogram.add(np.append(values, np.zeros(400_000)))
    assert 3.0 < least_divergence(histogram, DType.INT8) < 5.0


def test_a_network_of_integers_keeps_its_own_rules(samples) -> None:
    made = _quantized(samples)
    again = quantize(made.module, samples)
    assert again.module is made.module
    assert again.report.layers == ()


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="headroom"):
        QuantizationConfig(headroom=0.5)
    with pytest.raises(ValueError, match="global_range"):
        QuantizationConfig(global_range=0.0)
