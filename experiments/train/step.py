"""One step of training as one Relay function: loss, gradient, and the optimizer.

    main(parameters …, state …, images, labels, rate) -> (parameters …, state …, loss)

What the text of a network calls `@loss` is differentiated; the optimizer is Relay text too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, final

import numpy as np

from codesign.compiler.driver import compile as compile_module
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.compiler.gradient import Mode, gradient
from codesign.compiler.gradient.graph_form import graph_form
from codesign.dtypes import Array
from codesign.ir.executable.executable import Executable
from codesign.ir.relay.expr import Function
from codesign.ir.relay.module import Module
from codesign.ir.relay.types import TensorType, type_text

DATA: Final = ("images", "labels")
"""What the parameters of `@loss` end with: no gradient is asked for."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """What becomes of one parameter: Relay lines over `%w` (the parameter) and `%g` (its gradient).

    `state` names tensors of the parameter's shape that are kept between steps and begin at zero;
    the lines bind `new_w` and `new_<state>` of each.
    """

    name: str
    state: tuple[str, ...]
    lines: str


MOMENTUM: Final = Optimizer(
    name="momentum",
    state=("velocity",),
    lines="""
  let %new_velocity = 0.9f * %velocity - %rate * %g;
  let %new_w = %w + %new_velocity;""",
)
"""Stochastic gradient descent with momentum 0.9."""

ADAM: Final = Optimizer(
    name="adam",
    state=("mean", "square"),
    lines="""
  let %new_mean = 0.9f * %mean + 0.1f * %g;
  let %new_square = 0.999f * %square + 0.001f * %g * %g;
  let %new_w = %w - %rate * %new_mean / (sqrt(%new_square) + 1e-8f);""",
)
"""Adam; its correction of the first steps is the caller's, in the rate."""


def network(name: str) -> Module:
    """Return the text `<name>.relay` beside this file as a module."""
    text = files("experiments.train").joinpath(f"{name}.relay").read_text(encoding="utf-8")
    return parse_module(text, f"{name}.relay")


def parameters(module: Module) -> dict[str, tuple[int, ...]]:
    """Return the shapes of what is trained, by name, in order."""
    types = _types(module)
    return {name: types[name].static_shape for name in types if name not in DATA}


def training_step(module: Module, optimizer: Optimizer, *, mode: Mode = "first_order") -> Module:
    """Return the module whose main is one step of training; in mode `first_order` as one graph."""
    types = _types(module)
    trained = [name for name in types if name not in DATA]
    with_gradient = gradient("loss", module, mode=mode, parameters=trained)
    text = _step_text(types, trained, optimizer)
    whole = parse_module(text, "step.relay", imports=with_gradient)
    if mode == "higher_order":
        return whole
    params = whole.main.params
    return Module({"main": Function(params, graph_form(whole.main, whole, params))})


def compile_step(module: Module, optimizer: Optimizer, *, mode: Mode = "first_order") -> Executable:
    """Return the training step compiled for the CPU; its outputs are named as its inputs."""
    types = _types(module)
    trained = [name for name in types if name not in DATA]
    names = (*trained, *_states(trained, optimizer), "loss")
    return compile_module(training_step(module, optimizer, mode=mode), target="cpu", outputs=names)


def initial_state(module: Module, optimizer: Optimizer) -> dict[str, Array]:
    """Return the optimizer's tensors before the first step: zeros."""
    shapes = parameters(module)
    return {
        f"{name}_{each}": np.zeros(shapes[name], np.float32)
        for each in optimizer.state
        for name in shapes
    }


def _types(module: Module) -> dict[str, TensorType]:
    types: dict[str, TensorType] = {}
    for param in module.functions["loss"].params:
        assert isinstance(param.annotation, TensorType), "a parameter is an annotated tensor"
        types[param.name] = param.annotation
    return types


def _states(trained: Sequence[str], optimizer: Optimizer) -> tuple[str, ...]:
    return tuple(f"{name}_{each}" for each in optimizer.state for name in trained)


def _step_text(types: Mapping[str, TensorType], trained: Sequence[str], how: Optimizer) -> str:
    kept = {f"{name}_{each}": types[name] for each in how.state for name in trained}
    wanted = {name: types[name] for name in trained} | kept | {d: types[d] for d in DATA}
    params = [f"%{name}: {type_text(type_)}" for name, type_ in wanted.items()]
    lines = [
        '#[version = "0.0.5"]',
        f"def @main({', '.join(params)}, %rate: float32) {{",
        f"  let %all = @loss_gradient({', '.join(f'%{name}' for name in types)});",
    ]
    for index, name in enumerate(trained):
        lines.append(f"  let %{name}_g = %all.1.{index};")
        lines.append(re.sub(r"%(?!rate)(?!w\b)", f"%{name}_", how.lines).replace("%w", f"%{name}"))
    results = [f"%{name}_new_w" for name in trained]
    results += [f"%{name}_new_{each}" for each in how.state for name in trained]
    return "\n".join([*lines, f"  ({', '.join(results)}, %all.0)", "}"])
