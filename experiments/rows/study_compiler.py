"""study-r18-ideal, -r18-real, -r18-layers, -mobilenet, -tile-time: compiled networks on the clock.

All cycles are the cycle simulator's, all at the preset `base`, 1 x 16 x 16 behind a 64-bit bus:
with a memory that answers in the next cycle (ideal), or with 60 cycles of latency (real).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from codesign.accel.config import PAGE_BYTES, AccelConfig
from codesign.accel.presets import preset
from codesign.compiler import driver
from codesign.compiler.analysis.infer_types import infer_expression, infer_types
from codesign.compiler.backends.accel.region import compile_accel
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.partition.graph import replaced
from codesign.compiler.pipelines import optimize
from codesign.diagnostics import OnnxNode
from codesign.ir.executable.accel_kernel import AccelKernel
from codesign.ir.executable.executable import Executable
from codesign.ir.relay.expr import Call, Function, OpRef, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import post_order
from codesign.sim.cycle import CycleResult, CycleSimulator, program_cycles
from experiments.road.build import quantize_subject
from experiments.road.subject import subject
from experiments.rows.measurement import CONSOLE, Measurement
from experiments.rows.study_bounds import Need, bound_cycles, needs

IDEAL: Final = preset("base")
REAL: Final = IDEAL.with_dram(latency_cycles=60)
NEW: Final = replace(REAL, inp_depth=1024, wgt_depth=2048, acc_depth=4096)
"""A configuration that no preset has, for the time of a compilation."""

WARM_UP: Final = "digits"


def study_r18_ideal() -> Measurement:
    """Return ideal MAC cycles / cycles of ResNet-18 between its first pool and its last, in %."""
    module = _network("resnet18")
    first, last = _call(module, "nn.max_pool2d", 0), _call(module, "qnn.add", -1)
    x = Var("x", infer_types(module)[first])
    body = replaced(last, {first: x})
    kernel = _region(Function((x,), body), IDEAL)
    macs = sum(layer.macs for layer in kernel.layers)
    cycles = _run(kernel, IDEAL).cycles
    CONSOLE.print(
        f"{macs:,} MACs in {cycles:,} cycles of {IDEAL.macs}; {len(kernel.layers)} layers"
    )
    return _percent(macs / IDEAL.macs, cycles)


def study_r18_real() -> Measurement:
    """Return roofline / cycles of all of ResNet-18, in %."""
    return _whole("resnet18")


def study_mobilenet() -> Measurement:
    """Return roofline / cycles of all of MobileNet-V1, in %."""
    return _whole("mobilenet")


def study_r18_layers() -> Measurement:
    """Return roofline / cycles of the worst of ResNet-18's layers C2 … C11, in %.

    Each convolution behind the first is a program of its own here: nothing before it and nothing
    behind it hides its first load and its last store.
    """
    module = _network("resnet18")
    shares = {}
    for need in needs(module):
        if _name(need.call) == "qnn.conv2d":
            shares[_title(need.call)] = _alone(module, need)
    shares.pop("stem.conv")
    for name, share in shares.items():
        CONSOLE.print(f"{name:24} {share:6.2f} %")
    return Measurement(value=min(shares.values()), unit="percent", digits=2)


def study_tile_time() -> Measurement:
    """Return the seconds that ResNet-18 takes to compile for a configuration never seen before."""
    module, small = _network("resnet18"), _network(WARM_UP)
    driver.compile(small, target="accel", config=REAL, tuning=Tuning(program_cycles))
    CONSOLE.print(f"the simulator is loaded; compiling for {NEW.digest[:12]}")
    started = time.perf_counter()
    driver.compile(module, target="accel", config=NEW, tuning=Tuning(program_cycles))
    return Measurement(value=time.perf_counter() - started, unit="s", digits=1)


def _whole(name: str) -> Measurement:
    module = _network(name)
    executable = driver.compile(module, target="accel", config=REAL, tuning=Tuning(program_cycles))
    kernel = _only_kernel(executable)
    result = _run(kernel, REAL)
    _print_layers(kernel, result, {_title(each.call): each for each in needs(module)})
    bound = bound_cycles(module, REAL)
    CONSOLE.print(f"{result.cycles:,} cycles, the roofline {bound:,.0f}")
    return _percent(bound, result.cycles)


def _alone(module: Module, need: Need) -> float:
    """Return roofline / cycles of one convolution without its residual, in %."""
    requantize = next(
        node
        for node in post_order(module.main.body)
        if isinstance(node, Call) and _name(node) == "qnn.requantize" and node.args[0] is need.call
    )
    data = need.call.args[0]
    x = Var("x", infer_types(module)[data])
    kernel = _region(Function((x,), replaced(requantize, {data: x})), REAL)
    bound = replace(need, residual_bytes=0).cycles(REAL)
    return 100 * bound / _run(kernel, REAL).cycles


def _network(name: str) -> Module:
    quantized = quantize_subject(subject(name, samples=1), CONSOLE.print)
    return optimize(quantized.module)


def _region(function: Function, config: AccelConfig) -> AccelKernel:
    return compile_accel(function, infer_expression(function), config, Tuning(program_cycles))


def _only_kernel(executable: Executable) -> AccelKernel:
    (step,) = executable.accel_steps
    return step.kernel


def _run(kernel: AccelKernel, config: AccelConfig) -> CycleResult:
    base = -(-len(kernel.constants) // PAGE_BYTES) * PAGE_BYTES
    return CycleSimulator(config).run(kernel.program, (0, base))


def _print_layers(kernel: AccelKernel, result: CycleResult, known: Mapping[str, Need]) -> None:
    """Print what each layer adds to the run; its first loads may lie in the one before."""
    before = 0
    for layer in kernel.layers:
        end = max(before, int(result.timeline.end[layer.first : layer.last].max()))
        bound = known[layer.name].cycles(REAL) if layer.name in known else 0.0
        CONSOLE.print(
            f"{layer.name:24} {layer.operator:16} {end - before:9,} cycles, roofline {bound:11,.1f}"
            f" = {100 * bound / max(1, end - before):6.1f} %"
        )
        before = end


def _percent(bound: float, cycles: int) -> Measurement:
    return Measurement(value=100 * bound / cycles, unit="percent", digits=2)


def _call(module: Module, name: str, index: int) -> Call:
    found = [
        node
        for node in post_order(module.main.body)
        if isinstance(node, Call) and _name(node) == name
    ]
    return found[index]


def _name(call: Call) -> str:
    return call.callee.name if isinstance(call.callee, OpRef) else ""


def _title(call: Call) -> str:
    return call.span.name if isinstance(call.span, OnnxNode) else _name(call)
