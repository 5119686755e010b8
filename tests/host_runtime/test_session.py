"""Sessions: every device gives the answers of the host, and wrong inputs are refused."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.presets import preset
from codesign.compiler.driver import compile as compile_network
from codesign.compiler.interpreter import Interpreter
from codesign.diagnostics import CodesignError
from codesign.ir.executable.executable import Executable
from host_runtime.device import open_device
from host_runtime.session import Session
from tests.support.networks import image, small_network


@pytest.fixture(scope="module")
def on_base() -> Executable:
    return compile_network(
        small_network(), target="accel", config=preset("base"), outputs=("scores",)
    )


def test_host_and_devices_agree_bit_for_bit(on_base: Executable) -> None:
    network = small_network()
    host = Session(compile_network(network, target="cpu", outputs=("scores",)))
    functional = Session(on_base)
    timed = Session(on_base, open_device("cycle", preset("base")))
    for seed in range(3):
        inputs = {"image": image(seed)}
        expected = host.run(inputs)["scores"]
        assert np.array_equal(functional.run(inputs)["scores"], expected)
        assert np.array_equal(timed.run(inputs)["scores"], expected)
        meaning = Interpreter(network).run(**inputs)
        np.testing.assert_allclose(expected, meaning, rtol=1e-5, atol=1e-7)


def test_a_trace_shows_each_layer_as_numpy_computes_it(on_base: Executable) -> None:
    trace = Session(on_base).trace({"image": image()})
    observed: list[np.ndarray] = []
    network = small_network()
    Interpreter(network).evaluate(
        network.main, [image()], observe=lambda _, value: observed.append(value)
    )
    assert len(trace.tensors) == 8
    for name, tensor in trace.tensors.items():
        same = [
            value
            for value in observed
            if isinstance(value, np.ndarray)
            and value.dtype == np.int8
            and value.shape == tensor.shape
            and np.array_equal(value, tensor)
        ]
        assert same, f"layer {name} is not what NumPy computes"


def test_the_profile_accounts_for_every_cycle(on_base: Executable) -> None:
    session = Session(on_base, open_device("cycle", preset("base")))
    session.run({"image": image()})
    assert session.profile is not None
    (step,) = [step for step in session.profile.steps if step.kind == "accel"]
    assert step.cycles is not None
    assert session.profile.cycles == step.cycles
    assert sum(layer.cycles for layer in step.layers) == pytest.approx(step.cycles, abs=4)
    assert all(0 <= layer.start < layer.end <= step.cycles for layer in step.layers)
    # The vector unit cannot have drained gemm's tiles in fewer cycles than there are products.
    products = sum(layer.record.gemm_cycles for layer in step.layers)
    assert 0 < products < step.cycles
    assert step.counters is not None
    assert products * preset("base").macs == step.counters.macs


def test_wrong_inputs_are_named_together(on_base: Executable) -> None:
    session = Session(on_base)
    with pytest.raises(CodesignError) as caught:
        session.run({"picture": image(), "image": np.zeros((1, 3, 12, 11))})
    text = str(caught.value)
    assert "there is no input 'picture'" in text
    assert "found float64, expected float32" in text
    assert "found (1, 3, 12, 11), expected (1, 3, 12, 12)" in text
    with pytest.raises(CodesignError, match="input 'image' is missing"):
        session.run({})


def test_a_device_of_other_hardware_is_refused(on_base: Executable) -> None:
    with pytest.raises(CodesignError, match="another configuration"):
        Session(on_base, open_device("functional", preset("tiny")))
    with pytest.raises(CodesignError, match="there is no device 'fpga'"):
        open_device("fpga", preset("tiny"))
    with pytest.raises(CodesignError, match="'rtl' needs a library"):
        open_device("rtl", preset("tiny"))
