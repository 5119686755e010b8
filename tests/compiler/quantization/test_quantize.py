"""Whole networks in integers: close to fp32, exact by hand, honest about what stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.frontend.onnx import load_onnx
from codesign.compiler.interpreter import Interpreter
from codesign.compiler.pipelines import fuse, optimize
from codesign.compiler.quantization import QuantizationConfig, Quantized, RangeMethod, quantize
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Constant, Expr, Function, OpRef, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ir.relay.visit import post_order
from codesign.ir.relay.wellformed import check_module
from codesign.ops.axis import AxisAttrs
from codesign.ops.clip import ClipAttrs
from codesign.ops.nn.conv2d import Conv2DAttrs
from codesign.ops.nn.pool2d import Pool2DAttrs
from codesign.ops.table import call
from experiments.networks.registry import BUILD, network
from experiments.networks.samples import Split
from tests.support.random_networks import RandomNetwork

MINMAX = QuantizationConfig(method=RangeMethod.MINMAX)


def _run(module: Module, inputs: dict[str, Array]) -> Array:
    return np.asarray(Interpreter(module).run(**inputs))


def _names(module: Module) -> list[str]:
    nodes = post_order(module.main.body)
    return [n.callee.name for n in nodes if isinstance(n, Call) and isinstance(n.callee, OpRef)]


def _image(*shape: int) -> Var:
    return Var("x", TensorType(shape, DType.FLOAT32))


def _f(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def _one(data: Var, body: Expr) -> Module:
    return Module({"main": Function((data,), body)})


def _quantized(module: Module, count: int = 8, config: QuantizationConfig = MINMAX) -> Quantized:
    (data,) = module.main.params
    assert isinstance(data.annotation, TensorType)
    shape = data.annotation.static_shape
    return quantize(module, [{"x": _f(*shape, seed=s)} for s in range(count)], config=config)


def _sqnr_db(module: Module, quantized: Module, inputs: dict[str, Array]) -> float:
    wanted, found = _run(module, inputs), _run(quantized, inputs)
    noise = np.square(found - wanted).sum()
    return float(10 * np.log10(np.square(wanted).sum() / max(noise, 1e-30)))


def test_a_convolution_equals_its_integers_by_hand() -> None:
    data = _image(1, 1, 1, 2)
    weight = Constant(np.array([[[[2.0]]], [[[-1.0]]]], np.float32))
    biased = call("nn.bias_add", call("nn.conv2d", data, weight), Constant(np.float32([0.5, 1.0])))
    module = _one(data, call("nn.relu", biased))
    x = np.array([[[[-1.0, 3.0]]]], np.float32)
    made = quantize(module, [{"x": x}], config=MINMAX)
    # Data: [-1, 3], scale 4/255, zero point -128 + 63.75 = -64. Result: [0, 6.5], scale 6.5/255.
    report = made.report.layers[0]
    assert report.zero_point == -128
    assert report.scale == pytest.approx(6.5 / 255)
    # Codes of x: half_even(-63.75) - 64 = -128 and 191.25 -> 191 - 64 = 127.
    # First channel: weight 127 of scale 2/127; acc = 127 * -64 and 127 * 191; bias 0.5.
    scale = 4 / 255
    for channel, (factor, bias) in enumerate([(2.0, 0.5), (-1.0, 1.0)]):
        for pixel, code in enumerate((-64, 191)):
            unit = scale * abs(factor) / 127
            acc = int(np.sign(factor)) * 127 * code + round(bias / unit)
            wanted = max(0, round(acc * unit / (6.5 / 255)))
            found = _run(made.module, {"x": x})[0, channel, 0, pixel]
            assert round(float(found) / (6.5 / 255)) == wanted


def test_a_quantized_network_is_integer_between_its_ends() -> None:
    data = _image(1, 4, 6, 6)
    body = call("nn.relu", call("nn.conv2d", data, Constant(_f(4, 4, 3, 3))))
    body = call("nn.max_pool2d", body, attrs=Pool2DAttrs(pool_size=(2, 2), strides=(2, 2)))
    made = _quantized(_one(data, body))
    assert _names(made.module) == [
        "qnn.quantize", "qnn.conv2d", "qnn.requantize", "nn.max_pool2d", "qnn.dequantize",
    ]  # fmt: skip
    assert made.report.floating == ()


@pytest.mark.parametrize("name", ["nn.hard_swish", "sigmoid", "nn.relu", "nn.gelu", "tanh"])
def test_an_activation_follows_its_layer_as_limits_or_table(name: str) -> None:
    data = _image(1, 3, 5, 5)
    module = _one(data, call(name, call("nn.conv2d", data, Constant(_f(4, 3, 3, 3)))))
    made = _quantized(module)
    assert ("qnn.lookup" in _names(made.module)) == (name != "nn.relu")
    assert _sqnr_db(module, made.module, {"x": _f(1, 3, 5, 5, seed=3)}) > 25


def test_a_clip_is_absorbed_by_the_limits() -> None:
    data = _image(1, 3, 5, 5)
    layer = call("nn.conv2d", data, Constant(_f(4, 3, 3, 3) * np.float32(9)))
    module = _one(data, call("clip", layer, attrs=ClipAttrs(minimum=0.0, maximum=6.0)))
    made = _quantized(module)
    assert _names(made.module)[-2:] == ["qnn.requantize", "qnn.dequantize"]
    found = _run(made.module, {"x": _f(1, 3, 5, 5, seed=9) * 10})
    assert found.min() == 0
    assert found.max() == pytest.approx(6, abs=0.02)


@given(seed=st.integers(0, 2**32 - 1))
def test_random_networks_stay_close_and_typed(seed: int) -> None:
    net = RandomNetwork(seed, depth=5)
    module = optimize(net.module)
    samples = [net.inputs() for _ in range(3)]
    made = quantize(module, samples, config=MINMAX)
    check_module(made.module)
    infer_types(made.module)
    wanted, found = _run(module, samples[0]), _run(made.module, samples[0])
    assert np.abs(found - wanted).max() <= 0.15 * np.abs(wanted).max() + 0.15


@given(seed=st.integers(0, 2**32 - 1))
def test_a_quantized_network_can_be_fused_bit_for_bit(seed: int) -> None:
    net = RandomNetwork(seed, depth=4)
    made = quantize(optimize(net.module), [net.inputs()])
    inputs = net.inputs()
    np.testing.assert_array_equal(_run(fuse(made.module), inputs), _run(made.module, inputs))


def test_the_average_of_equal_values_is_that_value() -> None:
    data = _image(1, 2, 7, 7)
    body = call(
        "nn.global_avg_pool2d", call("nn.max_pool2d", data, attrs=Pool2DAttrs(pool_size=(1, 1)))
    )
    made = quantize(_one(data, body), [{"x": np.full((1, 2, 7, 7), 5.0, np.float32)}])
    found = _run(made.module, {"x": np.full((1, 2, 7, 7), 5.0, np.float32)})
    np.testing.assert_allclose(found, 5.0, rtol=1e-5)
    assert "qnn.sum_pool2d" in _names(made.module)


def test_an_average_of_uneven_windows_stays_fp32_with_the_reason() -> None:
    data = _image(1, 2, 6, 6)
    window = Pool2DAttrs(pool_size=(3, 3), padding=(1, 1, 1, 1))
    layer = call("nn.conv2d", data, Constant(_f(2, 2, 1, 1)))
    made = _quantized(_one(data, call("nn.avg_pool2d", layer, attrs=window)))
    (left,) = made.report.floating
    assert left.operator == "nn.avg_pool2d"
    assert left.reason == "its windows have different counts of elements"
    assert _names(made.module)[-2:] == ["qnn.dequantize", "nn.avg_pool2d"]


def test_parts_of_a_concatenation_have_one_scale() -> None:
    data = _image(1, 2, 4, 4)
    small = call("nn.conv2d", data, Constant(_f(2, 2, 1, 1) * np.float32(0.01)))
    large = call("nn.conv2d", data, Constant(_f(3, 2, 1, 1)))
    body = call("concatenate", Tuple((small, large)), attrs=AxisAttrs(axis=1))
    made = _quantized(_one(data, body))
    assert len({(layer.scale, layer.zero_point) for layer in made.report.layers}) == 1
    assert _names(made.module).count("qnn.dequantize") == 1


def test_softmax_stays_fp32_between_integers() -> None:
    data = _image(2, 5)
    logits = call("nn.dense", data, Constant(_f(4, 5)))
    soft = call("nn.softmax", logits, attrs=AxisAttrs(axis=1))
    made = _quantized(_one(data, call("nn.dense", soft, Constant(_f(3, 4)))))
    (left,) = made.report.floating
    assert (left.operator, left.reason) == ("nn.softmax", "nn.softmax has no integer form")
    assert _names(made.module) == [
        "qnn.quantize", "qnn.dense", "qnn.requantize", "qnn.dequantize", "nn.softmax",
        "qnn.quantize", "qnn.dense", "qnn.requantize", "qnn.dequantize",
    ]  # fmt: skip


def test_a_bias_beyond_32_bits_does_not_saturate_silently() -> None:
    data = _image(1, 4)
    weight = Constant(np.full((2, 4), 127e-6, np.float32))
    body = call("nn.bias_add", call("nn.dense", data, weight), Constant(np.float32([3.0, 0.0])))
    module = _one(data, body)
    x = np.full((1, 4), 127e-5, np.float32)
    made = quantize(module, [{"x": x}], config=MINMAX)
    np.testing.assert_allclose(_run(made.module, {"x": x})[0, 0], 3.0, rtol=0.01)
    assert "1 of 2 channels is widened" in made.report.notes[0]


def test_a_layer_whose_accumulator_could_overflow_stays_fp32() -> None:
    data = _image(1, 150_000)
    module = _one(data, call("nn.dense", data, Constant(np.ones((1, 150_000), np.float32))))
    made = _quantized(module, count=1)
    (left,) = made.report.floating
    assert "accumulator could reach" in left.reason
    x = {"x": _f(1, 150_000)}
    np.testing.assert_array_equal(_run(made.module, x), _run(module, x))


FLOAT_RESULTS = QuantizationConfig(float_results=True, compensate=False)


def test_a_floating_result_is_the_sums_by_hand() -> None:
    data = _image(1, 2)
    dense = call("nn.dense", data, Constant(np.float32([[2.0, 1.0], [-0.5, 0.25]])))
    module = _one(data, call("nn.bias_add", dense, Constant(np.float32([0.3, -1.0]))))
    made = quantize(module, [{"x": np.float32([[-1.0, 3.0]])}], config=FLOAT_RESULTS)
    # Data: scale 4/255, zero point -64. Weights: 127 and half_even(63.5) = 64, then -127 and 64.
    codes = np.array([-64, 191])  # half_even of -63.75 and 191.25
    scales = [np.float32(np.float32(4 / 255).astype(float) * 2 / 127 / shrink) for shrink in (1, 4)]
    wanted = []
    for row, bias, scale in zip([[127, 64], [-127, 64]], [0.3, -1.0], scales, strict=True):
        acc = int(np.dot(row, codes)) + round(bias / float(scale))
        wanted.append(np.float32(acc) * scale)
    found = _run(made.module, {"x": np.float32([[-1.0, 3.0]])})
    np.testing.assert_allclose(found, [wanted], rtol=1e-6)
    (layer,) = made.report.layers
    assert layer.is_integer
    assert layer.scale is None
    assert "gives its sums in fp32" in made.report.table()


@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 8)])
def test_floating_results_are_nearer_than_codes(shape: tuple[int, ...]) -> None:
    data = _image(*shape)
    inner = call("nn.relu", call("nn.dense", data, Constant(_f(8, 8))))
    module = _one(data, call("nn.dense", inner, Constant(_f(40, 8))))
    x = {"x": _f(*shape, seed=77)}
    ratios = []
    for config in (QuantizationConfig(), QuantizationConfig(float_results=True)):
        made = _quantized(module, config=config)
        ratios.append(_sqnr_db(module, made.module, x))
    assert ratios[1] > ratios[0]
    names = _names(made.module)
    assert names.count("qnn.requantize") == 1  # the inner layer stays in int8
    assert [name for name in names if name != "reshape"][-4:] == [
        "qnn.dense", "add", "cast", "multiply",
    ]  # fmt: skip


def test_a_floating_result_keeps_its_clip() -> None:
    data = _image(1, 3, 5, 5)
    layer = call("nn.conv2d", data, Constant(_f(4, 3, 3, 3)), attrs=Conv2DAttrs())
    layer = call("nn.bias_add", layer, Constant(_f(4)))
    module = _one(data, call("clip", layer, attrs=ClipAttrs(minimum=0.0, maximum=2.0)))
    made = _quantized(module, config=FLOAT_RESULTS)
    x = {"x": _f(1, 3, 5, 5, seed=9) * 10}
    wanted, found = _run(module, x), _run(made.module, x)
    assert (found.min(), found.max()) == (0, 2)
    assert ((found == 0) == (wanted == 0)).mean() > 0.9


def test_a_layer_that_others_read_keeps_its_codes() -> None:
    data = _image(1, 4)
    inner = call("nn.dense", data, Constant(_f(4, 4)))
    body = Tuple((inner, call("nn.dense", inner, Constant(_f(3, 4)))))
    made = _quantized(_one(data, body), config=FLOAT_RESULTS)
    first, second = made.report.layers
    assert first.scale is not None
    assert second.scale is None


def test_the_report_counts_what_is_cut_off_and_measures_the_error() -> None:
    data = _image(1, 3, 8, 8)
    module = _one(data, call("nn.conv2d", data, Constant(_f(4, 3, 3, 3)), attrs=Conv2DAttrs()))
    config = QuantizationConfig(method=RangeMethod.PERCENTILE, percentile=90, measure_error=True)
    (layer,) = _quantized(module, config=config).report.layers
    assert layer.values == 8 * 4 * 6 * 6
    assert layer.clipped == pytest.approx(0.1 * layer.values, rel=0.2)
    assert layer.sqnr_db is not None
    assert 5 < layer.sqnr_db < 30
    (exact,) = _quantized(
        module, config=QuantizationConfig(method=RangeMethod.MINMAX, measure_error=True)
    ).report.layers
    assert exact.clipped == 0
    assert exact.sqnr_db is not None
    assert exact.sqnr_db > 35


def test_samples_may_come_from_a_generator_once() -> None:
    data = _image(1, 4)
    module = _one(data, call("nn.dense", data, Constant(_f(3, 4))))
    made = quantize(module, ({"x": _f(1, 4, seed=s)} for s in range(5)))
    assert made.report.samples == 5


def test_no_sample_is_refused() -> None:
    data = _image(1, 4)
    module = _one(data, call("nn.dense", data, Constant(_f(3, 4))))
    with pytest.raises(CodesignError, match="quantization needs samples"):
        quantize(module, [])


def test_a_value_that_is_not_finite_is_refused() -> None:
    data = _image(1, 4)
    module = _one(data, call("nn.dense", data, Constant(_f(3, 4))))
    with pytest.raises(CodesignError, match="not finite"):
        quantize(module, [{"x": np.full((1, 4), np.nan, np.float32)}])


def test_a_fused_module_is_refused() -> None:
    data = _image(1, 4)
    module = fuse(_one(data, call("nn.dense", data, Constant(_f(3, 4)))))
    with pytest.raises(CodesignError, match="quantization takes a graph of operator calls"):
        quantize(module, [{"x": _f(1, 4)}])


def _agreement(name: str, calibration: int, evaluation: int) -> float:
    wanted = network(name)
    shapes = {wanted.input_name: wanted.input_shape}
    module = optimize(load_onnx(wanted.model_file(BUILD), shapes=shapes).module)
    samples = wanted.samples(Split.CALIBRATION, calibration, BUILD).inputs
    made = quantize(module, [{wanted.input_name: x[None]} for x in samples])
    answers = []
    for stage in (module, made.module):
        interpreter = Interpreter(stage)
        inputs = wanted.samples(Split.EVALUATION, evaluation, BUILD).inputs
        outputs = [interpreter.run(**{wanted.input_name: x[None]}) for x in inputs]
        answers.append(np.concatenate([np.asarray(each) for each in outputs]).argmax(axis=1))
    return float(np.mean(answers[0] == answers[1]))


@pytest.mark.needs_models("digits")
def test_quantized_digits_agree_with_fp32() -> None:
    assert _agreement("digits", 64, 200) >= 0.98


@pytest.mark.slow
@pytest.mark.needs_models("direction", "orientation")
@pytest.mark.parametrize("name", ["direction", "orientation"])
def test_quantized_published_networks_agree_with_fp32(name: str) -> None:
    assert _agreement(name, 24, 50) >= 0.98
