"""Networks as a sweep needs them: quantized once, sent to every worker."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeVar, final

from codesign.compiler.pipelines import optimize
from codesign.compiler.quantization import QuantizationConfig, RangeMethod
from codesign.ir.relay.module import Module
from experiments.models.cells import cell, integer_cell
from experiments.road.build import quantize_subject
from experiments.road.subject import Subject, is_network, subject
from experiments.sweep.apart import layers_apart

_STACK_BYTES: Final = 512 << 20
_DEPTH: Final = 200_000
CELLS: Final[Mapping[str, str]] = MappingProxyType(
    {f"{kind}-cell": kind for kind in ("lstm", "gru", "tree")}
)
"""Names of single steps of recurrent and tree-shaped networks, and their kind."""

APART: Final = "+apart"

_PLAIN: Final = QuantizationConfig(method=RangeMethod.MINMAX, bins=256, compensate=False)

_Result = TypeVar("_Result")


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A network for both targets: as imported, and in integers; each with one sample's inputs."""

    name: str
    floating: Module
    integer: Module

    def to_bytes(self) -> bytes:
        """Return the network for a worker of this program; deep networks need a deep stack."""
        return _on_deep_stack(lambda: pickle.dumps((self.name, self.floating, self.integer)))


def from_bytes(data: bytes) -> Prepared:
    """Return the network that `to_bytes` of this program sent."""
    name, floating, integer = _on_deep_stack(lambda: pickle.loads(data))
    return Prepared(name=name, floating=floating, integer=integer)


def prepare(network: str, say: Callable[[str], None]) -> Prepared:
    """Load and quantize a network, or one step of a recurrent one (`CELLS`).

    With `+apart` behind its name, no sum and no table is part of another layer (`layers_apart`).

    Weights that are seeded and not trained are rounded plainly, from one sample: no time depends on
    their values.

    Raises
    ------
    CodesignError
        There is no such network, or it cannot be quantized.
    """
    if network.endswith(APART):
        whole = prepare(network.removesuffix(APART), say)
        return replace(whole, name=network, integer=layers_apart(whole.integer))
    if network in CELLS:
        kind = CELLS[network]
        step = integer_cell(kind, 1).module
        return Prepared(name=network, floating=cell(kind, 1), integer=optimize(step))
    judged: Subject = subject(network, samples=1)
    if is_network(network) and not judged.is_trained:
        judged = replace(judged, calibration=judged.calibration[:1], quantization=_PLAIN)
    quantized = quantize_subject(judged, say)
    return Prepared(
        name=network, floating=optimize(judged.model.module), integer=optimize(quantized.module)
    )


def _on_deep_stack(call: Callable[[], _Result]) -> _Result:
    """Run a recursive call in a thread with room for it, and Python's own limit raised."""
    results: list[_Result] = []
    limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
    sys.setrecursionlimit(_DEPTH)
    try:
        thread = threading.Thread(target=lambda: results.append(call()))
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    return results[0]
