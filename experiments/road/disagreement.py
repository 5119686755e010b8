"""Where two stages that must agree bit for bit do not: the first layer and element, and how many.

Two simulators are compared tensor by tensor. The CPU keeps no tensors, so where its outputs differ
from the simulator's, the interpreter (NumPy references, no code in common with either) evaluates
the quantized network, and the simulator's tensors are looked up among its values: the first that
is not there belongs to the first layer that differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.compiler.interpreter import Interpreter
from codesign.dtypes import Array
from codesign.ir.relay.expr import Expr
from codesign.ir.relay.module import Module
from codesign.ops.operator import Value
from experiments.road.stages import StageResult
from experiments.road.subject import Inputs


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The first differing element of two stages; `count` of `size` elements of `tensor` differ."""

    left: str
    right: str
    sample: int
    tensor: str
    index: tuple[int, ...]
    left_value: float
    right_value: float
    count: int
    size: int

    def text(self) -> str:
        """Return the disagreement as one sentence."""
        return (
            f"{self.left} and {self.right} differ first in {self.tensor}, element "
            f"{list(self.index)} of sample {self.sample}: {self.left_value:g} and "
            f"{self.right_value:g} ({self.count:,} of {self.size:,} elements differ)"
        )


def differing(left: Array, right: Array) -> Array:
    """Return a boolean array of the elements whose bits differ; the shapes must be equal."""
    if left.shape != right.shape or left.dtype != right.dtype:
        raise ValueError(
            f"{left.dtype}{left.shape} cannot be compared to {right.dtype}{right.shape}"
        )
    bits = np.dtype(f"u{left.dtype.itemsize}")
    unequal: Array = np.ascontiguousarray(left).view(bits) != np.ascontiguousarray(right).view(bits)
    return unequal


def count_differing(left: StageResult, right: StageResult) -> int:
    """Return how many elements differ, of outputs and of tensors that both stages have."""
    total = 0
    for parts in ("outputs", "tensors"):
        for a, b in zip(getattr(left, parts), getattr(right, parts), strict=False):
            total += sum(int(differing(a[name], b[name]).sum()) for name in a if name in b)
    return total


def first_disagreement(
    left: StageResult, right: StageResult, module: Module, samples: tuple[Inputs, ...]
) -> Disagreement | None:
    """Return where the samples that both stages ran differ first, or None where they agree."""
    both = min(len(left.outputs), len(right.outputs))
    for sample in range(both):
        inner = _first(left, right, sample, left.tensors[sample], right.tensors[sample])
        if inner is not None:
            return inner
        outer = _first(left, right, sample, left.outputs[sample], right.outputs[sample])
        if outer is None:
            continue
        if right.tensors[sample] and not left.tensors[sample]:
            values = reference_tensors(module, samples[sample])
            return _first_unknown(values, right, sample) or outer
        return outer
    return None


def reference_tensors(module: Module, inputs: Inputs) -> list[Array]:
    """Return every int8 tensor that the interpreter computes for `main`, in order."""
    found: list[Array] = []

    def observe(_: Expr, value: Value) -> None:
        if isinstance(value, np.ndarray) and value.dtype == np.int8:
            found.append(value)

    arguments: tuple[Value, ...] = tuple(inputs[param.name] for param in module.main.params)
    Interpreter(module).evaluate(module.main, arguments, observe=observe)
    return found


def _first(
    left: StageResult,
    right: StageResult,
    sample: int,
    a: Mapping[str, Array],
    b: Mapping[str, Array],
) -> Disagreement | None:
    for name in a:
        if name not in b:
            continue
        unequal = differing(a[name], b[name])
        if unequal.any():
            return _at(left.stage, right.stage, sample, name, (a[name], b[name]), unequal)
    return None


def _first_unknown(values: list[Array], right: StageResult, sample: int) -> Disagreement | None:
    for name, tensor in right.tensors[sample].items():
        alike = [v.reshape(tensor.shape) for v in values if v.size == tensor.size]
        counts = [int((v != tensor).sum()) for v in alike]
        if alike and min(counts) > 0:
            nearest = alike[counts.index(min(counts))]
            return _at(
                "interpreter", right.stage, sample, name, (nearest, tensor), nearest != tensor
            )
    return None


def _at(
    left: str,
    right: str,
    sample: int,
    tensor: str,
    pair: tuple[Array, Array],
    unequal: Array,
) -> Disagreement:
    index = tuple(int(i) for i in np.argwhere(unequal)[0])
    return Disagreement(
        left=str(left),
        right=str(right),
        sample=sample,
        tensor=tensor,
        index=index,
        left_value=float(pair[0][index]),
        right_value=float(pair[1][index]),
        count=int(unequal.sum()),
        size=unequal.size,
    )
