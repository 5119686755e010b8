"""From a Relay module to an executable: optimize, place, split, compile each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, final

from codesign.accel.config import AccelConfig
from codesign.compiler.analysis.call_order import callees_first
from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.accel.match import operator_name
from codesign.compiler.backends.accel.region import compile_accel
from codesign.compiler.backends.accel.search import Tuning
from codesign.compiler.backends.gpu.compile import check_for_gpu, compile_gpu
from codesign.compiler.backends.gpu.device import DeviceModel, device_named, with_precision
from codesign.compiler.backends.llvm.cpu import compile_cpu
from codesign.compiler.backends.native.compile import compile_native
from codesign.compiler.collection import without_cycle_collection
from codesign.compiler.partition.assign import Assignment, assign
from codesign.compiler.partition.by_cost import place_by_cost
from codesign.compiler.partition.costs import ByCost, MeasuredCosts, check_placement
from codesign.compiler.partition.gpu import assign_gpu
from codesign.compiler.partition.graph import is_first_order, is_graph
from codesign.compiler.partition.split import Part, split
from codesign.compiler.partition.upsampled import split_upsampling
from codesign.compiler.pass_manager import write_to
from codesign.compiler.pipelines import optimize
from codesign.compiler.target import Target
from codesign.diagnostics import CodesignError, OnnxNode
from codesign.dtypes import Array
from codesign.ir.executable.accel_kernel import AccelKernel
from codesign.ir.executable.executable import (
    AccelStep,
    CpuStep,
    Executable,
    GpuStep,
    NativeStep,
    OperatorPlacement,
    Port,
    Step,
)
from codesign.ir.relay.expr import Call, Constant, Expr, Function, Let, OpRef, Tuple
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, TupleType, Type
from codesign.ir.relay.visit import post_order

_STAYS: Final = "control flow and local functions stay on the host"


class HasModule(Protocol):
    """Anything that carries a Relay module: an imported model, a quantized network."""

    @property
    def module(self) -> Module:
        """The module; `main` takes the inputs in order."""


@without_cycle_collection()
def compile(  # noqa: A001  (the verb that users look for)
    source: Module | HasModule,
    *,
    target: str = "cpu",
    config: AccelConfig | None = None,
    level: int = 2,
    passes: str | None = None,
    verify: bool = False,
    dump: Path | None = None,
    outputs: tuple[str, ...] | None = None,
    architecture: str = "sm_80",
    precision: str = "float32",
    on_host: tuple[str, ...] = (),
    tuning: Tuning | None = None,
    placement: ByCost | None = None,
) -> Executable:
    """Compile a network for the host, for a GPU, or for the accelerator of a configuration.

    Inputs are named as the parameters of `main`; `outputs` names its results, else they are
    `output` or `output0`, `output1`, … . The passes are those of a level, 0 to 4, or of a text like
    `simplify-inference,fold-constant(max_elements=100)`; `verify` checks the module after each, and
    `dump` is a folder that gets it.
    `architecture` is a GPU's, by LLVM's name; code for it runs on it and on what is newer. Its
    tensor cores multiply float32 with a `precision` of float32, tf32 or bf16. Operators of
    `on_host` are left to the host; tensors are copied where they meet the GPU's.
    `tuning` times programs for the accelerator, so that tile sizes are searched by their cycles
    (`Tuning(codesign.sim.cycle.program_cycles)`); without it an estimate chooses them.
    `placement` leaves layers to the host where the whole takes less time so, at the clock of
    `config` and by the cycles of `tuning`; without it all that the accelerator can run is there.

    Raises
    ------
    CodesignError
        Type errors, an unknown target, an illegal configuration, operators that neither side runs,
        a placement by cost without the accelerator or without a tuning.
    """
    chosen = Target.named(target)
    machine = (config or AccelConfig()).check() if chosen is Target.ACCEL else None
    check_placement(placement, chosen, tuning)
    module = source if isinstance(source, Module) else source.module
    observe = None if dump is None else write_to(dump)
    if machine is not None:
        module = split_upsampling(module)
    module = optimize(module, level, passes=passes, verify=verify, observe=observe)
    types = infer_types(module)
    main = module.main
    results = _results(main)
    if chosen is Target.GPU:
        device = with_precision(device_named(architecture), precision)
        if on_host:
            return _on_both(main, types, results, outputs, device, on_host)
        return _on_gpu(main, types, results, outputs, device)
    tensors = all(isinstance(types[each], TensorType) for each in (*main.params, *results))
    if not tensors or not is_first_order(main, types):
        return _native(module, types, outputs, wanted=machine is not None)
    if machine is None or not is_graph(main):
        return _on_host(main, types, results, outputs, wanted=machine is not None)
    one_layer = machine.block_in != machine.block_out
    assignment = assign(results, types, machine)
    if placement is not None and tuning is not None:
        costs = MeasuredCosts(types, machine, placement, tuning)
        assignment, totals = place_by_cost(results, types, assignment, costs, one_layer=one_layer)
        placement.told(totals)
    parts = split(results, types, assignment, one_layer=one_layer)
    values = _Values.of(main, results, parts)
    steps = tuple(_step(part, values, machine, tuning) for part in parts)
    return Executable(
        inputs=_inputs(main, types),
        outputs=_outputs(results, types, outputs),
        results=tuple(values.names[result] for result in results),
        steps=steps,
        constants=values.constants,
        placements=_placements(parts, assignment),
    )


def _on_gpu(
    main: Function,
    types: Mapping[Expr, Type],
    results: tuple[Expr, ...],
    outputs: tuple[str, ...] | None,
    device: DeviceModel,
) -> Executable:
    names = tuple(f"result{index}" for index in range(len(results)))
    step = GpuStep(
        name="0-gpu",
        kernel=compile_gpu(main, types, device),
        inputs=tuple(param.name for param in main.params),
        outputs=names,
    )
    return Executable(
        inputs=_inputs(main, types),
        outputs=_outputs(results, types, outputs),
        results=names,
        steps=(step,),
        placements=tuple(
            OperatorPlacement(
                name=_call_name(call),
                operator=operator_name(call) or "function",
                unit="gpu",
                step=step.name,
                reason="the network was compiled for a GPU",
            )
            for call in assign(results, types, None).units
        ),
    )


def _on_both(
    main: Function,
    types: Mapping[Expr, Type],
    results: tuple[Expr, ...],
    outputs: tuple[str, ...] | None,
    device: DeviceModel,
    on_host: tuple[str, ...],
) -> Executable:
    check_for_gpu(main, types)
    if not is_graph(main):
        raise CodesignError.of(
            "only a network that is a graph can run on host and GPU",
            help="leave on_host out, or compile at level 2, which removes lets",
        )
    assignment = assign_gpu(results, on_host)
    parts = split(results, types, assignment, one_layer=False, device="gpu")
    values = _Values.of(main, results, parts)
    return Executable(
        inputs=_inputs(main, types),
        outputs=_outputs(results, types, outputs),
        results=tuple(values.names[result] for result in results),
        steps=tuple(_gpu_or_host(part, values, device) for part in parts),
        constants=values.constants,
        placements=_placements(parts, assignment),
    )


def _gpu_or_host(part: Part, values: _Values, device: DeviceModel) -> Step:
    types = infer_types(Module({"main": part.function}))
    inputs = tuple(values.names[each] for each in part.inputs)
    outputs = tuple(values.names[each] for each in part.outputs)
    if part.side == "cpu":
        kernel = compile_cpu(part.function, types)
        return CpuStep(name=part.name, kernel=kernel, inputs=inputs, outputs=outputs)
    program = compile_gpu(part.function, types, device)
    return GpuStep(name=part.name, kernel=program, inputs=inputs, outputs=outputs)


def _results(main: Function) -> tuple[Expr, ...]:
    """Return what main gives: the fields of the tuple at its end, or the whole."""
    body = main.body
    while isinstance(body, Let):
        body = body.body
    return body.fields if isinstance(body, Tuple) else (main.body,)


def _native(
    module: Module,
    types: Mapping[Expr, Type],
    outputs: tuple[str, ...] | None,
    *,
    wanted: bool,
) -> Executable:
    """Return a module with control flow as one native library."""
    program = compile_native(module, types)
    is_split = isinstance(program.result, TupleType)
    given = program.result.fields if isinstance(program.result, TupleType) else (program.result,)
    names = _output_names(len(given), outputs)
    step = NativeStep(
        name="0-native",
        kernel=program,
        inputs=tuple(param.name for param in module.main.params),
        outputs=names,
        is_split=is_split,
    )
    return Executable(
        inputs=tuple(
            Port(param.name, type_)
            for param, type_ in zip(module.main.params, program.params, strict=True)
        ),
        outputs=tuple(Port(name, type_) for name, type_ in zip(names, given, strict=True)),
        results=names,
        steps=(step,),
        placements=tuple(
            OperatorPlacement(
                name=_call_name(call),
                operator=call.callee.name,
                unit="host",
                step=step.name,
                reason=_STAYS if wanted else "the target is the host",
            )
            for function in callees_first(module)
            for call in post_order(function)
            if isinstance(call, Call) and isinstance(call.callee, OpRef)
        ),
    )


def _on_host(
    main: Function,
    types: Mapping[Expr, Type],
    results: tuple[Expr, ...],
    outputs: tuple[str, ...] | None,
    *,
    wanted: bool,
) -> Executable:
    names = tuple(f"result{index}" for index in range(len(results)))
    step = CpuStep(
        name="0-cpu",
        kernel=compile_cpu(main, types),
        inputs=tuple(param.name for param in main.params),
        outputs=names,
    )
    reason = _STAYS if wanted else ""
    assignment = assign(results, types, None)
    placements = tuple(
        OperatorPlacement(
            name=_call_name(call),
            operator=operator_name(call) or "function",
            unit="host",
            step=step.name,
            reason=reason or assignment.reasons[call],
        )
        for call in assignment.units
    )
    return Executable(
        inputs=_inputs(main, types),
        outputs=_outputs(results, types, outputs),
        results=names,
        steps=(step,),
        placements=placements,
    )


@final
@dataclass(frozen=True, slots=True)
class _Values:
    """Names of the values that cross between steps, and the constants among them."""

    names: dict[Expr, str]
    constants: dict[str, Array]

    @classmethod
    def of(cls, main: Function, results: tuple[Expr, ...], parts: tuple[Part, ...]) -> _Values:
        names: dict[Expr, str] = {param: param.name for param in main.params}
        taken = set(names.values())
        constants: dict[str, Array] = {}
        for result in results:
            if isinstance(result, Constant):
                names[result] = _fresh("constant", taken)
                constants[names[result]] = result.value
        for part in parts:
            for output in part.outputs:
                names[output] = _fresh("value", taken)
        return cls(names, constants)


def _fresh(stem: str, taken: set[str]) -> str:
    index = 0
    while f"{stem}{index}" in taken:
        index += 1
    name = f"{stem}{index}"
    taken.add(name)
    return name


def _step(part: Part, values: _Values, config: AccelConfig, tuning: Tuning | None) -> Step:
    types = infer_types(Module({"main": part.function}))
    inputs = tuple(values.names[each] for each in part.inputs)
    outputs = tuple(values.names[each] for each in part.outputs)
    if part.side == "cpu":
        kernel = compile_cpu(part.function, types)
        return CpuStep(name=part.name, kernel=kernel, inputs=inputs, outputs=outputs)
    program: AccelKernel = compile_accel(part.function, types, config, tuning)
    return AccelStep(name=part.name, kernel=program, inputs=inputs, outputs=outputs)


def _placements(parts: tuple[Part, ...], assignment: Assignment) -> tuple[OperatorPlacement, ...]:
    return tuple(
        OperatorPlacement(
            name=_call_name(call),
            operator=operator_name(call) or "function",
            unit=assignment.units[call],
            step=part.name,
            reason=assignment.reasons.get(call, ""),
        )
        for part in parts
        for call in part.calls
        if isinstance(call, Call)
    )


def _call_name(call: Expr) -> str:
    match call:
        case Call(span=OnnxNode(name=name)):
            return name
        case _:
            return ""


def _inputs(main: Function, types: Mapping[Expr, Type]) -> tuple[Port, ...]:
    return tuple(Port(param.name, _tensor(types[param])) for param in main.params)


def _outputs(
    results: tuple[Expr, ...], types: Mapping[Expr, Type], names: tuple[str, ...] | None
) -> tuple[Port, ...]:
    names = _output_names(len(results), names)
    return tuple(
        Port(name, _tensor(types[result])) for name, result in zip(names, results, strict=True)
    )


def _output_names(count: int, names: tuple[str, ...] | None) -> tuple[str, ...]:
    if names is None:
        return tuple(f"output{index}" if count > 1 else "output" for index in range(count))
    if len(names) != count:
        raise CodesignError.of(
            f"{len(names)} names of outputs are given", found=f"main gives {count} values"
        )
    return names


def _tensor(type_: Type) -> TensorType:
    if not isinstance(type_, TensorType):
        raise CodesignError.of(
            "inputs and outputs of an executable are tensors", found=f"found {type_}"
        )
    return type_
