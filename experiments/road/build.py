"""What is compiled for a network: fp32 and int8 for the CPU, int8 for an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from codesign.accel.config import AccelConfig
from codesign.compiler import driver
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.partition.costs import ByCost, Totals
from codesign.compiler.pipelines import optimize
from codesign.compiler.quantization import Quantized, Sample, quantize
from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.executable.executable import Executable
from codesign.ir.relay.module import Module
from codesign.sim.cycle import program_cycles
from experiments.road.devices import Say
from experiments.road.subject import Subject
from host_runtime.clock import copy_times, kernel_seconds
from host_runtime.session import Session


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class OnCpu:
    """A network on the host: as imported in fp32, and quantized."""

    subject: Subject
    quantized: Quantized
    fp32: Executable
    int8: Executable


def build_on_cpu(subject: Subject, say: Say) -> OnCpu:
    """Compile a network in fp32, quantize it with its calibration samples, compile it in int8.

    Raises
    ------
    CodesignError
        The network cannot be quantized or compiled.
    """
    fp32 = compile_fp32(subject, say)
    quantized = quantize_subject(subject, say)
    int8 = compile_int8(subject, quantized, say)
    return OnCpu(subject=subject, quantized=quantized, fp32=fp32, int8=int8)


def compile_fp32(subject: Subject, say: Say) -> Executable:
    """Compile a network as it was imported, for the CPU."""
    say("compiling fp32 for the CPU")
    return driver.compile(subject.model, target="cpu", outputs=_outputs(subject))


@final
@dataclass(frozen=True, kw_only=True)
class GpuChoice:
    """What code for a GPU is made for; the fields are those of `driver.compile`."""

    architecture: str = "sm_80"
    precision: str = "float32"
    on_host: tuple[str, ...] = ()


def compile_gpu(subject: Subject, choice: GpuChoice, say: Say) -> Executable:
    """Compile a network as it was imported, for a GPU."""
    say(f"compiling {choice.precision} for a GPU of {choice.architecture}")
    return driver.compile(
        subject.model,
        target="gpu",
        outputs=_outputs(subject),
        architecture=choice.architecture,
        precision=choice.precision,
        on_host=choice.on_host,
    )


def quantize_subject(subject: Subject, say: Say) -> Quantized:
    """Quantize a network with its calibration samples."""
    say(f"quantizing with {len(subject.calibration)} samples")
    module = optimize(subject.model.module)
    return quantize(
        module,
        subject.calibration,
        evaluate=compiled_evaluator,
        config=subject.quantization,
    )


def compile_int8(subject: Subject, quantized: Quantized, say: Say) -> Executable:
    """Compile a quantized network for the CPU."""
    say("compiling int8 for the CPU")
    return driver.compile(quantized, target="cpu", outputs=_outputs(subject))


def compile_accel(
    subject: Subject,
    quantized: Quantized,
    config: AccelConfig,
    say: Say,
    placement: ByCost | None = None,
) -> Executable:
    """Compile a quantized network for the accelerator of a configuration, and the host.

    `placement` is that of `codesign.compile`.

    Raises
    ------
    CodesignError
        A layer does not fit the configuration, or the accelerator cannot hold the scheme.
    """
    scheme = quantized.report.scheme
    if scheme.may_wrap:
        raise CodesignError.of(
            f"the accelerator cannot hold the scheme {scheme}",
            found=f"its values have 8 bits and its sums 32, the scheme's {scheme.codes.bits} and "
            f"{scheme.sums.bits}",
            help="use 8/32, or the target int8: the CPU takes every scheme",
        )
    say("compiling int8 for the accelerator")
    return driver.compile(
        quantized,
        target="accel",
        config=config,
        outputs=_outputs(subject),
        tuning=Tuning(program_cycles),
        placement=placement,
    )


def placed_by_cost(config: AccelConfig, say: Say) -> ByCost:
    """Return placement by what kernels and copies take on this machine; the totals are said."""
    say("measuring copies; layers are timed on this host")
    copies = copy_times(config)
    say(f"a copy takes {copies.copy_s * 1e6:.1f} us and {copies.bytes_per_s / 1e6:.0f} MB/s")

    def told(totals: Totals) -> None:
        say(
            f"by cost at {config.clock_mhz} MHz: as chosen {totals.chosen_s * 1e3:.3f} ms, "
            f"all on the accelerator {totals.all_on_accel_s * 1e3:.3f} ms, "
            f"all on the host {totals.all_on_host_s * 1e3:.3f} ms"
        )

    return ByCost(
        host_clock=kernel_seconds,
        copy_s=copies.copy_s,
        bytes_per_s=copies.bytes_per_s,
        told=told,
    )


def _outputs(subject: Subject) -> tuple[str, ...]:
    return tuple(name for name, _ in subject.model.outputs)


def compiled_evaluator(module: Module) -> Callable[[Sample], Sequence[Array]]:
    """Return how to run an fp32 module for calibration: compiled, tens of times the interpreter."""
    session = Session(driver.compile(module, target="cpu", level=0))

    def run(sample: Sample) -> Sequence[Array]:
        return tuple(session.run(sample).values())

    return run
