"""assign_gpu: for every call of a graph, GPU or host, as the user wishes."""

from __future__ import annotations

from collections.abc import Collection

from codesign.compiler.backends.accel.match import Composite, operator_name
from codesign.compiler.partition.assign import Assignment
from codesign.compiler.partition.graph import graph_order
from codesign.diagnostics import CodesignError
from codesign.ir.relay.expr import Call, Expr


def assign_gpu(results: tuple[Expr, ...], on_host: Collection[str]) -> Assignment:
    """Return an assignment in which calls of operators of `on_host` run there, all others do not.

    Raises CodesignError where no call is one of a named operator.
    """
    calls = tuple(node for node in graph_order(*results) if isinstance(node, Call))
    kept = {call for call in calls if operator_name(call) in on_host}
    absent = set(on_host) - {operator_name(call) for call in kept}
    if absent:
        raise CodesignError.of(
            f"the network calls no {', '.join(sorted(absent))}, which is to stay on the host",
            found=f"it calls {', '.join(sorted({operator_name(call) or '' for call in calls}))}",
        )
    return Assignment(
        composites={call: Composite(main=call) for call in calls if call not in kept},
        units={call: "host" if call in kept else "gpu" for call in calls},
        reasons=dict.fromkeys(kept, "it was named to stay on the host"),
    )
