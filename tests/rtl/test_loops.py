"""The loop nest yields the indices of nested Python loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hardware.rtl.loops import LoopNest
from tests.support.rtl import simulate

LOOPS = 4
BITS = 8
OPERANDS = ("a", "b")


def expected(extents, reducing, slices, base, strides):
    """Slices run inside the outer loops and outside the `reducing` innermost ones."""
    outer = [range(extent) for extent in extents[: LOOPS - reducing]]
    inner = [range(extent) for extent in extents[LOOPS - reducing :]]
    for out in itertools.product(*outer):
        for part in range(slices):
            for reduced in itertools.product(*inner):
                counters = (*out, *reduced)
                index = {
                    name: (base[name] + np.dot(counters, strides[name])) % (1 << BITS)
                    for name in OPERANDS
                }
                first = not any(reduced)
                final = reduced == tuple(extent - 1 for extent in extents[LOOPS - reducing :])
                yield part, index["a"], index["b"], int(first), int(final)


@pytest.mark.parametrize("slices", [1, 4])
@pytest.mark.parametrize("reducing", range(LOOPS + 1))
def test_loop_nest_walks_like_nested_loops(slices, reducing):
    rng = np.random.default_rng((slices, reducing))
    extents = [int(each) for each in rng.integers(1, 4, LOOPS)]
    base = {name: int(rng.integers(1 << BITS)) for name in OPERANDS}
    strides = {name: rng.integers(0, 1 << BITS, LOOPS) for name in OPERANDS}
    nest = LoopNest(LOOPS, 3, dict.fromkeys(OPERANDS, BITS), slices=slices)
    wanted = list(expected(extents, reducing, slices, base, strides))

    async def bench(ctx):
        ctx.set(nest.reduce, sum(1 << loop for loop in range(LOOPS - reducing, LOOPS)))
        ctx.set(nest.extents, [extent - 1 for extent in extents])
        for name in OPERANDS:
            ctx.set(getattr(nest, f"{name}_base"), base[name])
            ctx.set(getattr(nest, f"{name}_strides"), [int(each) for each in strides[name]])
        ctx.set(nest.start, 1)
        await ctx.tick()
        ctx.set(nest.start, 0)
        ctx.set(nest.step, 1)
        for index, row in enumerate(wanted):
            outputs = (nest.slice, nest.a, nest.b, nest.first, nest.final)
            assert tuple(ctx.get(each) for each in outputs) == row
            assert ctx.get(nest.last) == (index == len(wanted) - 1)
            await ctx.tick()

    simulate(nest, bench)
