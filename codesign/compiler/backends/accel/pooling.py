"""Which pools stand at the end of the convolution before them: those that make it no slower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from codesign.accel.config import AccelConfig
from codesign.compiler.backends.accel.fit import shortage
from codesign.compiler.backends.accel.match import Composite, Uses, operator_name
from codesign.compiler.backends.accel.plan import Plan, runs_on_gemm
from codesign.compiler.backends.accel.pool import can_pool
from codesign.compiler.backends.accel.search import Search
from codesign.ir.relay.expr import Expr, Var
from codesign.ir.relay.types import Type

_POOLS: Final = frozenset({"nn.max_pool2d", "qnn.sum_pool2d"})


def with_pools(
    composites: Sequence[Composite],
    uses: Uses,
    types: Mapping[Expr, Type],
    search: Search,
    from_host: set[Var],
) -> tuple[Composite, ...]:
    """Return composites in which convolutions take along the pool that alone reads their result.

    One that does not fit the memories so, or takes more cycles than the two apart, stays apart.
    """
    found: dict[Expr, Composite] = {}
    for composite in composites:
        before = found.get(composite.main.args[0])
        if (
            before is not None
            and operator_name(composite.main) in _POOLS
            and _can_end_in_pool(before, uses, search.config)
            and _is_worth_it(before, composite, types, search, from_host)
        ):
            del found[before.root]
            composite = replace(before, pool=composite)
        found[composite.root] = composite
    return tuple(found.values())


def _can_end_in_pool(composite: Composite, uses: Uses, config: AccelConfig) -> bool:
    """Whether a composite is a convolution on the array whose result has one reader."""
    return (
        operator_name(composite.main) == "qnn.conv2d"
        and composite.pool is None
        and runs_on_gemm(composite, config)
        and uses[composite.root] == 1
    )


def _is_worth_it(
    before: Composite,
    pool: Composite,
    types: Mapping[Expr, Type],
    search: Search,
    from_host: set[Var],
) -> bool:
    """Whether a convolution and a pool take no more cycles as one layer than as two."""
    plan = Plan(search.config, types, apart=True)
    apart = [*plan.add(before, from_host), *plan.add(pool, from_host)]
    if not can_pool(*apart) or any(shortage(each, search.config) for each in apart):
        return False
    together = Plan(search.config, types, apart=True).add(replace(before, pool=pool), from_host)
    if any(shortage(each, search.config) for each in together):
        return False
    return search.cost(together) <= search.cost(apart)
