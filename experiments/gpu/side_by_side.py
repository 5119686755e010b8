"""Which launches of the timed networks may run side by side, and what memory that takes.

python -m experiments.gpu.side_by_side prints a line for each network at a batch of 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from codesign.compiler.analysis.infer_types import infer_types
from codesign.compiler.backends.gpu.compile import planned
from codesign.compiler.backends.gpu.device import DEVICES
from codesign.compiler.backends.gpu.lower import lower
from codesign.compiler.backends.gpu.program import GpuProgram
from codesign.compiler.lower.graph import graph_of
from codesign.compiler.lower.plan_memory import plan_memory
from codesign.compiler.pipelines import optimize
from codesign.ir.executable.gpu_kernel import DEVICE_ALIGNMENT
from codesign.ir.relay.module import Module
from experiments.gpu.networks import TIMED


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """Launches, how many stand in the longest chain, and for how many another may run beside.

    `least_bytes` is the workspace of the same launches one after the other.
    """

    launches: int
    chain: int
    with_another: int
    workspace_bytes: int
    least_bytes: int


def counted(program: GpuProgram) -> SideBySide:
    """Return what a program's plan leaves to run side by side."""
    plan, followed = planned(program)
    chains: list[int] = []
    for earlier in followed:
        chains.append(1 + max((chains[number] for number in earlier), default=0))
    return SideBySide(
        launches=len(followed),
        chain=max(chains, default=0),
        with_another=len(_beside_another(followed)),
        workspace_bytes=plan.size_bytes,
        least_bytes=plan_memory(program, DEVICE_ALIGNMENT, 0).size_bytes,
    )


def _beside_another(followed: Sequence[tuple[int, ...]]) -> set[int]:
    found: set[int] = set()
    done: list[set[int]] = []
    for number, earlier in enumerate(followed):
        done.append(set(earlier).union(*(done[each] for each in earlier)))
        beside = set(range(number)) - done[number]
        found |= beside | ({number} if beside else set())
    return found


def main() -> int:
    """Print a line for each network."""
    for name, network in TIMED.items():
        module = optimize(Module({"main": network.function(1, np.dtype(np.float16))}), 2)
        graph = graph_of(module.main, infer_types(module))
        found = counted(lower(graph, DEVICES["sm_90"]))
        sys.stdout.write(
            f"{name}: {found.launches} launches, longest chain {found.chain}, "
            f"{found.with_another} have another beside them, workspace {found.workspace_bytes} "
            f"bytes, one after the other {found.least_bytes} bytes\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
