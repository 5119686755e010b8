"""What a layer costs: measured on the host, in exact cycles on the accelerator, and in copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Protocol, TypeAlias, final

from codesign.accel.config import AccelConfig
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.accel.builder import Builder
from codesign.compiler.backends.accel.layer import Layer
from codesign.compiler.backends.accel.layer_to_nodes import emit_layer
from codesign.compiler.backends.accel.match import MOVES_NOTHING, Composite, operator_name
from codesign.compiler.backends.accel.plan import Plan, runs_on_gemm
from codesign.compiler.backends.accel.search import Search, Tuning, cycles_of
from codesign.compiler.backends.llvm.cpu import compile_cpu
from codesign.compiler.target import Target
from codesign.diagnostics import CodesignError
from codesign.ir.executable.cpu_kernel import CpuKernel
from codesign.ir.relay.expr import Expr, Function, Var
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import Type

HostClock: TypeAlias = Callable[[CpuKernel], float]
"""Returns the seconds of one call of a kernel on the host."""


class Costs(Protocol):
    """Times in whole nanoseconds."""

    def host_ns(self, function: Function) -> int:
        """Return the time of one call of a function on the host."""

    def accel_ns(self, composite: Composite) -> int:
        """Return the time of a layer on the accelerator."""

    def copy_ns(self, size_bytes: int) -> int:
        """Return the time of a tensor from one side to the other."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a network takes in all by its costs, in seconds: as chosen, and the two plain ways."""

    chosen_s: float
    all_on_accel_s: float
    all_on_host_s: float


def _untold(_: Totals) -> None:
    """Do nothing."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ByCost:
    """Placement of every layer where the whole takes least time.

    `host_clock` times kernels; a tensor crosses in `copy_s` seconds and its bytes at `bytes_per_s`.
    `told` gets the totals.
    """

    host_clock: HostClock
    copy_s: float
    bytes_per_s: float
    told: Callable[[Totals], None] = _untold


def check_placement(placement: ByCost | None, target: Target, tuning: Tuning | None) -> None:
    """Refuse a placement by cost without the accelerator or without a tuning."""
    if placement is None:
        return
    if target is not Target.ACCEL:
        raise CodesignError.of(
            "only a network for the accelerator is placed by cost",
            found=f"the target is {target}",
            help="leave placement out, or compile for accel",
        )
    if tuning is None:
        raise CodesignError.of(
            "placement by cost counts cycles, and no clock is given",
            help="pass tuning=Tuning(codesign.sim.cycle.program_cycles)",
        )


@final
class MeasuredCosts:
    """The costs of one network: kernels timed by a clock, layers alone by a tuning's."""

    def __init__(
        self,
        types: Mapping[Expr, Type],
        config: AccelConfig,
        placement: ByCost,
        tuning: Tuning,
    ) -> None:
        self._types = types
        self._config = config
        self._placement = placement
        self._tuning = tuning
        self._search = Search(config, tuning)

    def host_ns(self, function: Function) -> int:
        """Compile the function for the CPU and time it."""
        kernel = compile_cpu(function, infer_types(Module({"main": function})))
        return ceil(self._placement.host_clock(kernel) * 1e9)

    def accel_ns(self, composite: Composite) -> int:
        """Write the layer as a program and count its cycles."""
        if operator_name(composite.main) in MOVES_NOTHING:
            return 0
        layer = self._layer(composite)
        (choice,) = self._search.choose((layer,))
        builder = Builder(self._config, has_values=False)
        emit_layer(builder, layer, choice)
        cycles = cycles_of(builder.nodes, self._config, self._tuning)
        return ceil(cycles * 1000 / self._config.clock_mhz)

    def copy_ns(self, size_bytes: int) -> int:
        """Return the fixed time and that of the bytes."""
        placement = self._placement
        return ceil((placement.copy_s + size_bytes / placement.bytes_per_s) * 1e9)

    def _layer(self, composite: Composite) -> Layer:
        plan = Plan(self._config, self._types, apart=True)
        source = composite.data[0]
        if not isinstance(source, Var) or not runs_on_gemm(composite, self._config):
            return plan.trial(composite)
        return plan.best_unrolling(composite, "trial", source, plan.result_of(composite, "result"))
