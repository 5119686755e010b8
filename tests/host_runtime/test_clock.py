"""What the clock says of this machine is a time, and grows with the work."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.accel.presets import PRESETS, preset
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.llvm.cpu import compile_cpu
from codesign.ir.executable.cpu_kernel import CpuKernel
from codesign.ir.relay.expr import Function
from codesign.ir.relay.module import Module
from host_runtime.clock import copy_times, kernel_seconds
from tests.support.regions import Maker


def _convolution(side: int) -> CpuKernel:
    maker = Maker(np.random.default_rng(0))
    x = maker.var((1, 16, side, side))
    function = Function((x,), maker.conv(x, (16, 16, 3, 3)))
    return compile_cpu(function, infer_types(Module({"main": function})))


def test_a_thousand_times_the_work_takes_longer() -> None:
    assert 0 < kernel_seconds(_convolution(4)) < kernel_seconds(_convolution(66))


@pytest.mark.parametrize("name", PRESETS)
def test_copies_have_a_time_and_a_bandwidth(name: str) -> None:
    times = copy_times(preset(name))
    assert 0 <= times.copy_s < 1
    assert 1e3 < times.bytes_per_s < 1e12
