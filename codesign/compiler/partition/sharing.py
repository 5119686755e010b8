"""sharing: of all ways to share work between host and accelerator, the one that takes least time.

Every work has a time on either side and every tensor a time to cross, so the best way is a minimum
cut. Times are whole nanoseconds, so that the answer is exact.

Source: Stone, Multiprocessor scheduling with the aid of network flow algorithms (IEEE TSE 1977).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, final

import networkx as nx

_ACCEL: Final = "accel"
_HOST: Final = "host"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What runs on one side as a whole: its time on either; `accel_ns` None: on the host only."""

    host_ns: int
    accel_ns: int | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A tensor, by the places of its maker and readers among the works.

    It takes `copy_ns` to the other side, once for all readers there. `maker` None: it comes from
    the host. `is_result`: the host reads it at the end.
    """

    maker: int | None
    readers: frozenset[int]
    is_result: bool
    copy_ns: int

    def crosses(self, on_accel: Collection[int]) -> bool:
        """Whether maker and some reader are on different sides."""
        made_there = self.maker in on_accel
        read_there = {reader in on_accel for reader in self.readers}
        return (not made_there) in read_there or (made_there and self.is_result)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Works, the tensors between them, and `bound`.

    `bound` are pairs of works: the first runs on the accelerator only where the second does.
    """

    works: tuple[Work, ...]
    tensors: tuple[Crossing, ...]
    bound: frozenset[tuple[int, int]] = frozenset()

    def copies_ns(self, on_accel: Collection[int]) -> int:
        """Return the time of all copies where `on_accel` are the works on the accelerator."""
        return sum(each.copy_ns for each in self.tensors if each.crosses(on_accel))

    def total_ns(self, on_accel: Collection[int]) -> int:
        """Return the time of all works and copies, one after the other."""
        total = self.copies_ns(on_accel)
        for index, work in enumerate(self.works):
            there = work.accel_ns if index in on_accel else work.host_ns
            assert there is not None, "a work that only the host runs is on the host"
            total += there
        return total

    def cheapest(self) -> frozenset[int]:
        """Return the works on the accelerator that make the total least; of equals, the most."""
        _, (accel, _) = nx.minimum_cut(self._network(), _ACCEL, _HOST)
        return frozenset(node for node in accel if isinstance(node, int))

    def _network(self) -> nx.DiGraph:
        """Return the network: what a cut takes apart costs its capacity; no capacity: for ever."""
        network = nx.DiGraph()
        network.add_nodes_from((_ACCEL, _HOST))
        for index, work in enumerate(self.works):
            network.add_edge(_ACCEL, index, capacity=work.host_ns)
            if work.accel_ns is None:
                network.add_edge(index, _HOST)
            else:
                network.add_edge(index, _HOST, capacity=work.accel_ns)
        network.add_edges_from(self.bound)
        for number, tensor in enumerate(self.tensors):
            _add_crossing(network, number, tensor)
        return network


def _add_crossing(network: nx.DiGraph, number: int, tensor: Crossing) -> None:
    """Add a node for the tensor on either side: whoever reads it there draws it along."""
    maker = _HOST if tensor.maker is None else tensor.maker
    there, here = ("to the accelerator", number), ("to the host", number)
    network.add_edge(there, maker, capacity=tensor.copy_ns)
    network.add_edges_from((reader, there) for reader in tensor.readers)
    if tensor.maker is None:
        return
    network.add_edge(maker, here, capacity=tensor.copy_ns)
    network.add_edges_from((here, reader) for reader in tensor.readers)
    if tensor.is_result:
        network.add_edge(here, _HOST)
