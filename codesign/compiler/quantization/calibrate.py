"""Ranges of all tensors of a plan, from samples that run through the fp32 network one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, final

from codesign.compiler.interpreter import Interpreter
from codesign.compiler.quantization.config import QuantizationConfig, RangeMethod
from codesign.compiler.quantization.forms import Affine, Floating, Form, Join, Lookup, Matmul, Same
from codesign.compiler.quantization.histogram import Histogram
from codesign.compiler.quantization.moments import Moments
from codesign.compiler.quantization.operands import operands
from codesign.compiler.quantization.params import QuantParams
from codesign.compiler.quantization.peaks import Peaks
from codesign.compiler.quantization.plan import Plan
from codesign.compiler.quantization.ranges import choose, grid_of
from codesign.diagnostics import CodesignError, InternalError
from codesign.dtypes import Array
from codesign.ir.relay.expr import Expr, Tuple
from codesign.ir.relay.expr import Function as RelayFunction
from codesign.ir.relay.module import Module
from codesign.ir.relay.visit import use_counts

_LEAST_RANGE: Final = 1e-20

Sample: TypeAlias = Mapping[str, Array]
"""The network's inputs by name."""

Evaluator: TypeAlias = Callable[[Module], Callable[[Sample], Sequence[Array]]]
"""Prepares a module whose main gives a tuple of tensors, once; the result runs it on a sample."""


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    """Histograms and parameters of all tensors that get codes; moments of what layers read.

    `peaks` are the greatest sums of layers where the scheme's sums may wrap.
    """

    histograms: Mapping[Expr, Histogram]
    params: Mapping[Expr, QuantParams]
    moments: Mapping[Expr, Moments]
    peaks: Mapping[Expr, Array]
    samples: int


def interpret(module: Module) -> Callable[[Sample], Sequence[Array]]:
    """Return how to evaluate a module by the operators' references."""
    interpreter = Interpreter(module)

    def run(sample: Sample) -> Sequence[Array]:
        value = interpreter.run(**sample)
        if not isinstance(value, tuple):
            raise InternalError("main must give a tuple")
        return tuple(each for each in value if not isinstance(each, tuple))

    return run


def observed(main: RelayFunction, nodes: Sequence[Expr]) -> Module:
    """Return a module that gives the values of all nodes, in order."""
    return Module({"main": replace(main, body=Tuple(tuple(nodes)), result_type=None)})


def calibrate(
    main: RelayFunction,
    plan: Plan,
    samples: Iterable[Sample],
    evaluate: Evaluator,
    config: QuantizationConfig,
    ties: Sequence[tuple[Expr, Expr]] = (),
) -> Calibration:
    """Return the parameters of all tensors that have codes; `ties` are pairs of one scale.

    Raises
    ------
    CodesignError
        There is no sample, or a tensor holds a value that is not finite.
    """
    nodes = list(
        dict.fromkeys(
            each
            for key, form in plan.forms.items()
            if not isinstance(form, Floating)
            for each in (*operands(form), key)
        )
    )
    histograms = {node: Histogram(config.bins) for node in nodes}
    layers = {key: form for key, form in plan.forms.items() if isinstance(form, Affine)}
    moments = {key: Moments(form) for key, form in layers.items() if config.compensate}
    peaks = {key: Peaks(form) for key, form in layers.items() if config.scheme.may_wrap}
    seen = list(dict.fromkeys((*nodes, *(layers[key].chain[0] for key in peaks))))
    run = evaluate(observed(main, seen))
    count = 0
    for sample in samples:
        values = dict(zip(seen, run(sample), strict=True))
        for node in nodes:
            histograms[node].add(values[node])
        for key, peak in peaks.items():
            peak.add(values[layers[key].chain[0]])
        for key, moment in moments.items():
            moment.add(values[layers[key].data])
        count += 1
    if count == 0:
        raise CodesignError.of(
            "quantization needs samples",
            found="there is none",
            help="give some inputs as the network meets them in use; a few dozen are enough",
        )
    if any(each.strangers for each in histograms.values()):
        raise CodesignError.of(
            "the network gives values that are not finite on the samples",
            help="look at the samples; quantization cannot choose a range for infinity or NaN",
        )
    params = _params(plan, use_counts(main.body), histograms, config, ties)
    greatest = {key: peak.greatest for key, peak in peaks.items()}
    return Calibration(histograms, params, moments, greatest, count)


def _params(
    plan: Plan,
    uses: Mapping[Expr, int],
    histograms: Mapping[Expr, Histogram],
    config: QuantizationConfig,
    ties: Sequence[tuple[Expr, Expr]],
) -> dict[Expr, QuantParams]:
    classes = _classes(plan, histograms, ties)
    if config.method is RangeMethod.GLOBAL and config.global_range is None:
        seen = (max(-each.least, each.greatest) for each in histograms.values())
        config = replace(config, global_range=max(max(seen, default=0.0), _LEAST_RANGE))
    readers = _readers(plan)
    params: dict[Expr, QuantParams] = {}
    for members in classes:
        sources = [m for m in members if not isinstance(plan.forms.get(m), Same | Join)]
        found = []
        for node in sources:
            is_private = len(members) == 1 and uses[node] == 1
            function = _only_function(readers.get(node, [])) if is_private else None
            found.append(choose(histograms[node], config, function))
        chosen = found[0]
        if len(found) > 1:
            low, high = min(p.low for p in found), max(p.high for p in found)
            chosen = grid_of(config).covering(low, high)
        if any(isinstance(form, Matmul) for node in members for form in readers.get(node, [])):
            chosen = grid_of(config).symmetric(chosen)
        params.update(dict.fromkeys(members, chosen))
    return params


def _only_function(readers: Sequence[Form]) -> Callable[[Array], Array] | None:
    """Return the function that alone reads a tensor, None where something else does."""
    match readers:
        case [Lookup(function=function)]:
            return function
        case _:
            return None


def _readers(plan: Plan) -> dict[Expr, list[Form]]:
    readers: dict[Expr, list[Form]] = {}
    for form in plan.forms.values():
        for operand in operands(form):
            readers.setdefault(operand, []).append(form)
    return readers


def _classes(
    plan: Plan, nodes: Iterable[Expr], ties: Sequence[tuple[Expr, Expr]]
) -> list[list[Expr]]:
    """Return the tensors in groups of one scale: what is moved or joined keeps its codes."""
    group: dict[Expr, list[Expr]] = {node: [node] for node in nodes}
    kept = [
        (key, operand)
        for key, form in plan.forms.items()
        if isinstance(form, Same | Join)
        for operand in operands(form)
    ]
    for key, operand in (*kept, *ties):
        mine, other = group[key], group[operand]
        if mine is not other:
            mine.extend(other)
            for each in other:
                group[each] = mine
    return list({id(members): members for members in group.values()}.values())
