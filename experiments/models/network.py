"""A Relay program in a file with its constants, and the weights that fill it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final, TypeAlias

import numpy as np

from codesign.compiler.frontend.prelude import prelude
from codesign.compiler.frontend.relay_parser import parse_module
from codesign.dtypes import Array
from codesign.ir.relay.literal import CONSTANTS, to_metadata
from codesign.ir.relay.module import Module

Weights: TypeAlias = Mapping[str, Array]
"""float32 arrays by the names that PyTorch gives a module's parameters."""

SEED: Final = 7


def program(name: str, constants: Sequence[Array]) -> Module:
    """Return the module of `name.relay` with its metadata table filled in order."""
    text = files("experiments.models").joinpath(f"{name}.relay").read_text(encoding="utf-8")
    table = json.dumps({CONSTANTS: [to_metadata(each) for each in constants]})
    return parse_module(f"{text}\n#[metadata]\n{table}\n", f"{name}.relay", imports=prelude())


def linear_weights(layers: Mapping[str, tuple[int, int, bool]], seed: int = SEED) -> Weights:
    """Return uniform weights for layers given as (outputs, inputs, whether there is a bias).

    They are as large as PyTorch makes them: up to 1 / sqrt(inputs).
    """
    random = np.random.default_rng(seed)
    weights: dict[str, Array] = {}
    for name, (outputs, inputs, has_bias) in layers.items():
        bound = 1 / np.sqrt(inputs)
        weights[f"{name}.weight"] = _uniform(random, bound, (outputs, inputs))
        if has_bias:
            weights[f"{name}.bias"] = _uniform(random, bound, (outputs,))
    return weights


def _uniform(random: np.random.Generator, bound: float, shape: tuple[int, ...]) -> Array:
    return random.uniform(-bound, bound, shape).astype(np.float32)
