"""The cheapest way to share work is the cheapest of all ways, tried one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from codesign.compiler.partition.sharing import Crossing, Sharing, Work


def _every_way(sharing: Sharing) -> Iterator[frozenset[int]]:
    """Yield every legal set of works on the accelerator."""
    movable = [i for i, work in enumerate(sharing.works) if work.accel_ns is not None]
    for size in range(len(movable) + 1):
        for chosen in combinations(movable, size):
            if all(second in chosen for first, second in sharing.bound if first in chosen):
                yield frozenset(chosen)


def _cost(sharing: Sharing, on_accel: frozenset[int]) -> int:
    """Add up times and copies, tensor by tensor and direction by direction."""
    total = 0
    for index, work in enumerate(sharing.works):
        total += (work.accel_ns or 0) if index in on_accel else work.host_ns
    for tensor in sharing.tensors:
        from_accel = tensor.maker is not None and tensor.maker in on_accel
        readers = [reader in on_accel for reader in tensor.readers]
        readers += [False] if tensor.is_result else []
        if any(reader != from_accel for reader in readers):
            total += tensor.copy_ns
    return total


def _random_sharing(rng: np.random.Generator) -> Sharing:
    count = int(rng.integers(1, 13))
    works = tuple(
        Work(
            host_ns=int(rng.integers(0, 60)),
            accel_ns=None if rng.random() < 0.2 else int(rng.integers(0, 60)),
        )
        for _ in range(count)
    )
    tensors = [
        Crossing(
            maker=maker if maker >= 0 else None,
            readers=frozenset(
                int(each) for each in range(maker + 1, count) if rng.random() < 3 / count
            ),
            is_result=bool(rng.random() < 0.2),
            copy_ns=int(rng.integers(0, 40)),
        )
        for maker in range(-1, count)
    ]
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, count, (int(rng.integers(0, 3)), 2))}
    return Sharing(
        works=works,
        tensors=tuple(tensors),
        bound=frozenset((a, b) for a, b in pairs if a != b),
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_choice_is_the_cheapest_of_all(seed: int) -> None:
    sharing = _random_sharing(np.random.default_rng(seed))
    costs = {way: _cost(sharing, way) for way in _every_way(sharing)}
    chosen = sharing.cheapest()
    assert costs[chosen] == min(costs.values()) == sharing.total_ns(chosen)
    assert len(chosen) == max(len(way) for way, cost in costs.items() if cost == costs[chosen])


def test_a_tensor_crosses_once_for_all_its_readers() -> None:
    """Two readers on the accelerator save 30 each; one copy of 50 pays for both, two would not."""
    works = (
        Work(host_ns=0, accel_ns=None),
        Work(host_ns=40, accel_ns=10),
        Work(host_ns=40, accel_ns=10),
    )
    tensor = Crossing(maker=0, readers=frozenset({1, 2}), is_result=False, copy_ns=50)
    assert Sharing(works=works, tensors=(tensor,)).cheapest() == {1, 2}
    alone = Sharing(
        works=works[:2],
        tensors=(Crossing(maker=0, readers=frozenset({1}), is_result=False, copy_ns=50),),
    )
    assert alone.cheapest() == frozenset()


def test_what_is_bound_moves_together() -> None:
    """The second is better on the host by 5, the first on the accelerator by 20."""
    works = (Work(host_ns=30, accel_ns=10), Work(host_ns=10, accel_ns=15))
    bound = frozenset({(0, 1)})
    assert Sharing(works=works, tensors=(), bound=bound).cheapest() == {0, 1}
    assert Sharing(works=works, tensors=()).cheapest() == {0}


def test_seconds_are_counted_to_the_nanosecond() -> None:
    hour = 3600 * 10**9
    works = (Work(host_ns=hour + 1, accel_ns=hour), Work(host_ns=hour, accel_ns=hour + 1))
    assert Sharing(works=works, tensors=()).cheapest() == {0}
