"""What layers would not move if activations stayed on chip, counted by hand."""

from __future__ import annotations

import numpy as np

from codesign.accel.config import AccelConfig, Memory
from codesign.compiler import driver
from codesign.dtypes import DType
from codesign.ir.executable.accel_kernel import AccelKernel, LayerRecord
from codesign.ir.relay.expr import Call, Constant, Expr, Function, Tuple, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType
from codesign.ops.qnn.add import QAddAttrs
from codesign.ops.qnn.requantize import RequantizeAttrs
from codesign.ops.table import call
from experiments.study.on_chip.answer import BUSES, NETWORKS, POINTS, layer_points
from experiments.study.on_chip.point import LayerPoint
from experiments.study.on_chip.transfers import cycles_without, saved, transfers
from experiments.study.table import read_points
from experiments.sweep.network import prepare

CHANNELS = 16


def _product(data: Expr) -> Call:
    weight = Constant(np.ones((CHANNELS, CHANNELS, 1, 1), np.int8))
    constants = (Constant(np.full(CHANNELS, each, np.int32)) for each in (0, 1 << 19, 27))
    return call(
        "qnn.requantize", call("qnn.conv2d", data, weight), *constants, attrs=RequantizeAttrs()
    )


def _kernel(plane: int, *, keeps_middle: bool = False) -> AccelKernel:
    """Three products behind each other; with `keeps_middle`, the second's result is one too."""
    data = Var("x", TensorType((1, CHANNELS, plane, plane), DType.INT8))
    first = _product(data)
    second = _product(first)
    third = _product(second)
    body: Expr = Tuple((third, second)) if keeps_middle else third
    module = Module({"main": Function((data,), body)})
    (step,) = driver.compile(module, target="accel", config=AccelConfig()).accel_steps
    return step.kernel


def test_what_fits_is_neither_stored_nor_loaded() -> None:
    # Tensors are 8 * 8 positions of 16 bytes; input and result still move.
    found = saved(_kernel(8))
    assert found.fitting == found.every == (1024, 2048, 1024)


def test_a_result_is_stored_though_the_layer_behind_finds_it() -> None:
    assert saved(_kernel(8, keeps_middle=True)).fitting == (1024, 1024, 1024)


def test_what_does_not_fit_is_saved_with_room_for_every_tensor() -> None:
    # 48 * 48 tiles are more than the 2048 of out.
    found = saved(_kernel(48))
    assert found.fitting == (0, 0, 0)
    assert found.every == (36864, 73728, 36864)


def test_a_tensor_that_one_more_layer_reads_later_is_stored() -> None:
    data = Var("x", TensorType((1, CHANNELS, 8, 8), DType.INT8))
    first = _product(data)
    second = call("qnn.lookup", first, Constant(np.zeros(256, np.int8)))
    attrs = QAddAttrs(
        lhs_zero_point=0,
        rhs_zero_point=0,
        lhs_multiplier=1,
        rhs_multiplier=1,
        shift=1,
        zero_point=0,
    )
    module = Module({"main": Function((data,), call("qnn.add", second, first, attrs=attrs))})
    (step,) = driver.compile(module, target="accel", config=AccelConfig()).accel_steps
    assert [each.operator for each in step.kernel.layers][1:] == ["qnn.lookup", "qnn.add"]
    assert saved(step.kernel).fitting == (0, 2048, 1024)
    assert saved(step.kernel).every == (1024, 2048, 2048)


def test_transfers_of_a_layer_name_tensor_memory_and_bytes() -> None:
    kernel = _kernel(8)
    second = [each for each in transfers(kernel) if each.layer == 1]
    assert {each.memory for each in second} == {Memory.INP, Memory.OUT}
    for memory in (Memory.INP, Memory.OUT):
        assert sum(each.bytes for each in second if each.memory is memory) == 1024
    assert {each.tensor for each in second if each.memory is Memory.OUT} == {
        kernel.layers[1].output
    }


def test_the_busiest_unit_binds_a_layer_without_its_transfers() -> None:
    record = LayerRecord(
        name="",
        operator="qnn.conv2d",
        unit="gemm",
        output="",
        first=0,
        last=1,
        macs=0,
        bytes_read=800,
        bytes_written=0,
        gemm_cycles=70,
        vector_cycles=60,
        memory_cycles=100,
    )
    assert cycles_without(record, 160, AccelConfig()) == 80
    assert cycles_without(record, 400, AccelConfig()) == 70


def test_every_network_behind_every_bus_is_committed() -> None:
    points = read_points(POINTS, LayerPoint)
    pairs = {(each.network, each.bus_bits) for each in points}
    assert pairs == {(network, bus) for network in NETWORKS for bus in BUSES}
    assert all(each.every_cycles <= each.fitting_cycles <= each.cycles for each in points)


def test_a_cell_measured_afresh_is_as_committed() -> None:
    committed = [e for e in read_points(POINTS, LayerPoint) if e.network == "lstm-cell"]
    module = prepare("lstm-cell", lambda _: None).integer
    found = [each for bus in BUSES for each in layer_points("lstm-cell", module, bus)]
    assert found == committed
