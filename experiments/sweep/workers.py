"""Where points run: in this process, in its children, or on a Dask cluster."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Final, Protocol, TypeAlias, final

from distributed import Client

from codesign.diagnostics import CodesignError
from experiments.sweep.measure import Measured, measure
from experiments.sweep.network import Prepared, from_bytes
from experiments.sweep.point import Point

_CONNECT_S: Final = 10


Networks: TypeAlias = Mapping[str, Prepared]
"""Prepared networks by name."""


class Workers(Protocol):
    """What runs points: this process, its children, or a cluster."""

    @property
    def count(self) -> int:
        """How many points run at once."""

    def submit(self, point: Point) -> Future[Measured]:
        """Begin a point."""

    def close(self) -> None:
        """End the workers; points that run are given up."""


@final
class Inline:
    """No workers: points run in this process, one after the other."""

    count: Final = 1

    def __init__(self, networks: Networks) -> None:
        self._networks = networks

    def submit(self, point: Point) -> Future[Measured]:
        done: Future[Measured] = Future()
        done.set_result(measure(point, self._networks[point.network]))
        return done

    def close(self) -> None:
        pass


_networks: dict[str, Prepared] = {}


def _receive(data: tuple[bytes, ...]) -> None:
    _networks.update({each.name: each for each in map(from_bytes, data)})


def _measure_here(point: Point) -> Measured:
    return measure(point, _networks[point.network])


@final
class Processes:
    """Child processes, each with the networks."""

    def __init__(self, networks: Networks, count: int) -> None:
        self.count = count
        data = tuple(each.to_bytes() for each in networks.values())
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_receive,
            initargs=(data,),
        )

    def submit(self, point: Point) -> Future[Measured]:
        return self._pool.submit(_measure_here, point)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


@final
class Cluster:
    """A Dask cluster, by its scheduler's address; it needs this program on every machine."""

    def __init__(self, networks: Networks, address: str) -> None:
        try:
            self._client = Client(address, timeout=_CONNECT_S)
        except OSError as error:
            raise CodesignError.of(
                f"no Dask scheduler answers at {address!r}",
                found=str(error),
                help="start one: dask scheduler; and workers: dask worker ADDRESS",
            ) from None
        self.count = max(1, sum(self._client.nthreads().values()))
        data = {name: each.to_bytes() for name, each in networks.items()}
        self._data = {
            name: self._client.scatter(each, broadcast=True) for name, each in data.items()
        }

    def submit(self, point: Point) -> Future[Measured]:
        """Begin a point on the cluster."""
        remote = self._client.submit(_measure_there, point, self._data[point.network], pure=False)
        local: Future[Measured] = Future()
        remote.add_done_callback(lambda each: _hand_over(each, local))
        return local

    def close(self) -> None:
        """Leave the cluster; it goes on for others."""
        self._client.close()


def _measure_there(point: Point, data: bytes) -> Measured:
    if point.network not in _networks:
        _networks[point.network] = from_bytes(data)
    return measure(point, _networks[point.network])


def _hand_over(remote: Any, local: Future[Measured]) -> None:
    error = remote.exception()
    if error is None:
        local.set_result(remote.result())
    else:
        local.set_exception(error)
