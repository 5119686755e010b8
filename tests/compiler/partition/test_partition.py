"""Where operators run, why not elsewhere, and how a graph falls into steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from codesign.accel.config import AccelConfig
from codesign.compiler.analysis.infer_types import infer_expression
from codesign.compiler.partition.assign import assign
from codesign.compiler.partition.split import split
from codesign.dtypes import Array, DType
from codesign.ir.relay.expr import Call, Expr, OpRef, Tuple, Var
from codesign.ir.relay.types import TensorType
from codesign.ops.axis import AxisAttrs
from codesign.ops.qnn.quantize import QuantizeAttrs
from tests.support.networks import image, small_network
from tests.support.regions import CONFIGS, Maker, meaning, run_parts


def _reasons(body: Expr, config: AccelConfig) -> dict[str, str]:
    assignment = assign((body,), infer_expression(body), config)
    return {call.callee.name: reason for call, reason in assignment.reasons.items()}


def test_each_reason_names_what_is_in_the_way() -> None:
    maker = Maker(np.random.default_rng(0))
    x = maker.var((1, 4, 5, 5))
    small = CONFIGS["minute"]
    assert (
        "needs 144 bytes of vec, which has 32"
        in _reasons(maker.max_pool(x, pool_size=(3, 3)), small)["nn.max_pool2d"]
    )
    no_tables = AccelConfig(has_lut=False)
    assert "has_lut = false" in _reasons(maker.lookup(x), no_tables)["qnn.lookup"]
    no_products = AccelConfig(has_multiplier=False)
    assert "has_multiplier = false" in _reasons(maker.add(x, x), no_products)["qnn.add"]
    narrow = AccelConfig(acc_bits=16)
    assert "16 bits saturate" in _reasons(maker.conv(x, (4, 4, 1, 1)), narrow)["qnn.conv2d"]
    moved = _reasons(maker.reshape(x, (1, 100)), AccelConfig())
    assert "moves elements" in moved["reshape"]


def test_without_multiplier_depthwise_runs_on_the_array() -> None:
    maker = Maker(np.random.default_rng(0))
    body = maker.conv(maker.var((1, 20, 5, 5)), (20, 1, 3, 3), groups=20)
    types = infer_expression(body)
    for has_multiplier, unit in ((True, "vector"), (False, "gemm")):
        config = AccelConfig(has_multiplier=has_multiplier)
        assert set(assign((body,), types, config).units.values()) == {unit}


def test_without_tables_only_the_table_stays_on_the_host() -> None:
    maker = Maker(np.random.default_rng(1))
    x = maker.var((1, 8, 5, 5))
    body = maker.conv(maker.lookup(maker.conv(x, (8, 8, 1, 1))), (8, 8, 1, 1))
    data = {x: maker.data((1, 8, 5, 5))}
    without = replace(CONFIGS["tiny"], has_lut=False)
    units = assign((body,), infer_expression(body), without).units
    assert {call.callee.name: unit for call, unit in units.items()} == {
        "qnn.conv2d": "gemm",
        "qnn.requantize": "gemm",
        "qnn.lookup": "host",
    }
    (got,) = run_parts((body,), data, without)
    np.testing.assert_array_equal(got, meaning((body,), data)[0])


def test_sums_that_have_two_readers_stay_on_the_host() -> None:
    maker = Maker(np.random.default_rng(0))
    body = maker.conv(maker.var((1, 8, 5, 5)), (8, 8, 1, 1))
    twice = Tuple((body, body.args[0]))
    assignment = assign(twice.fields, infer_expression(twice), AccelConfig())
    assert set(assignment.units.values()) == {"host"}


def test_a_network_falls_into_three_steps() -> None:
    main = small_network().main
    types = infer_expression(main)
    assignment = assign((main.body,), types, AccelConfig())
    parts = split((main.body,), types, assignment, one_layer=False)
    assert [part.side for part in parts] == ["cpu", "accel", "cpu"]
    assert sum(unit == "host" for unit in assignment.units.values()) == 3


@pytest.mark.parametrize("config", ["base", "unequal", "minute", "small"])
def test_steps_compute_what_the_graph_means(config: str) -> None:
    main = small_network().main
    values: dict[Var, Array] = {main.params[0]: image()}
    found = run_parts((main.body,), values, CONFIGS[config])
    np.testing.assert_array_equal(found[0], meaning((main.body,), values)[0])


def test_host_work_between_layers_splits_them() -> None:
    maker = Maker(np.random.default_rng(3))
    x = maker.var((1, 8, 4, 4))
    first = maker.conv(x, (8, 8, 1, 1))
    real = Call(OpRef("qnn.dequantize"), (first,), QuantizeAttrs(scale=0.1, zero_point=0))
    hard = Call(OpRef("tanh"), (real,))
    back = Call(OpRef("qnn.quantize"), (hard,), QuantizeAttrs(scale=0.01, zero_point=0))
    both = Call(OpRef("concatenate"), (Tuple((back, first)),), AxisAttrs(axis=1))
    body = maker.conv(both, (5, 16, 3, 3))
    types = infer_expression(body)
    assignment = assign((body,), types, AccelConfig())
    parts = split((body,), types, assignment, one_layer=False)
    assert [part.side for part in parts] == ["accel", "cpu", "accel"]
    values: dict[Var, Array] = {x: maker.data((1, 8, 4, 4))}
    found = run_parts((body,), values, AccelConfig())
    np.testing.assert_array_equal(found[0], meaning((body,), values)[0])
    assert types[body] == TensorType((1, 5, 2, 2), DType.INT8)


def test_a_first_layer_that_fits_only_unrolled_runs_on_the_accelerator() -> None:
    maker = Maker(np.random.default_rng(11))
    first = maker.conv(maker.var((1, 3, 20, 20)), (8, 3, 7, 7), strides=(2, 2))
    small = AccelConfig(block_in=4, block_out=4, vector_lanes=4, bus_bits=32, inp_depth=32)
    assert first not in _placed(first, small)
    second = maker.conv(first, (8, 8, 7, 7))
    assert "inp, which has 128" in _placed(second, small)[second]


def _placed(body: Call, config: AccelConfig) -> Mapping[Expr, str]:
    return assign((body,), infer_expression(Tuple((body,))), config).reasons
