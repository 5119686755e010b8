"""Who touched which element since the last barrier: finds races and accesses out of bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from codesign.dtypes import Array

_NOBODY: Final = -1
_SEVERAL: Final = -2


@final
@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake of a kernel: its kind, the buffer, and where it happened."""

    kind: str
    buffer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} on {self.buffer}: {self.detail}"


@final
class AccessLog:
    """Accesses of threads to the elements of one memory.

    `threads` are the numbers of threads over all blocks. Within a block a barrier parts accesses;
    between blocks nothing does, which `is_shared` says whether it can matter.
    """

    def __init__(
        self, name: str, elements: int, threads_per_block: int, *, is_shared: bool
    ) -> None:
        self._name = name
        self._width = threads_per_block
        self._is_shared = is_shared
        self._writer = np.full(elements, _NOBODY, dtype=np.int64)
        self._reader = np.full(elements, _NOBODY, dtype=np.int64)
        self._write_epoch = np.zeros(elements, dtype=np.int64)
        self._read_epoch = np.zeros(elements, dtype=np.int64)
        self._epoch = 0
        self._is_written = False
        self._waiting: list[tuple[Array, Array]] = []
        self._arriving: Array | None = None

    def barrier(self) -> None:
        """All blocks have passed a barrier."""
        self._epoch += 1
        if self._is_shared:
            self._is_written = False
            self._waiting.clear()

    def read(self, places: Array, threads: Array) -> Fault | None:
        """Note reads; return a race with a write by another thread."""
        self._waiting.append((places, threads))
        fault = self._under_way("read", places, threads)
        if fault is not None or not self._is_written:
            return fault
        return self._against(self._writer, self._write_epoch, places, threads, "read", "write")

    def _note_waiting(self) -> None:
        """Note reads that waited: they count against writes only, of which one comes now."""
        for places, threads in self._waiting:
            fresh = (self._reader[places] == _NOBODY) | self._is_parted(
                self._reader, self._read_epoch, places, threads
            )
            self._reader[places] = np.where(fresh, threads, self._reader[places])
            self._reader[places] = np.where(self._reader[places] == threads, threads, _SEVERAL)
            self._read_epoch[places] = self._epoch
        self._waiting.clear()

    def write(self, places: Array, threads: Array) -> Fault | None:
        """Note writes; return a race with an access by another thread."""
        self._note_waiting()
        self._is_written = True
        fault = self._under_way("write", places, threads)
        fault = fault or self._against(
            self._reader, self._read_epoch, places, threads, "write", "read"
        )
        fault = fault or self._against(
            self._writer, self._write_epoch, places, threads, "write", "write"
        )
        self._writer[places] = threads
        self._write_epoch[places] = self._epoch
        lost = np.flatnonzero(self._writer[places] != threads)
        if fault is None and len(lost):
            place, thread = int(places[lost[0]]), int(threads[lost[0]])
            other = int(self._writer[place])
            return self._race("write", "write", place, thread, other)
        return fault

    def begin(self, places: Array, threads: Array) -> Fault | None:
        """Note copies that threads begin: from now on they may write at any time."""
        fault = self.write(places, threads)
        if self._arriving is None:
            self._arriving = np.full(len(self._writer), _NOBODY, dtype=np.int64)
        self._arriving[places] = threads
        return fault

    def end(self, places: Array, threads: Array) -> None:
        """Note that copies are there, for the threads which began them."""
        assert self._arriving is not None, "a copy that ends was begun"
        self._arriving[places] = _NOBODY
        self._is_written = True
        self._writer[places] = threads
        self._write_epoch[places] = self._epoch

    def _under_way(self, mine: str, places: Array, threads: Array) -> Fault | None:
        if self._arriving is None:
            return None
        found = np.flatnonzero(self._arriving[places] != _NOBODY)
        if not len(found):
            return None
        place, thread = int(places[found[0]]), int(threads[found[0]])
        block, lane = divmod(thread, self._width)
        copier = int(self._arriving[place]) % self._width
        return Fault(
            "copy not waited for",
            self._name,
            f"{mine} of element {place} by thread {lane} of block {block} while a copy by thread "
            f"{copier} is under way",
        )

    def _is_parted(self, who: Array, epoch: Array, places: Array, threads: Array) -> Array:
        """Whether a barrier of their block stands between an earlier access and these."""
        earlier = epoch[places] < self._epoch
        if self._is_shared:
            return np.asarray(earlier)
        same_block = who[places] // self._width == threads // self._width
        return np.asarray(earlier & same_block & (who[places] != _SEVERAL))

    def _against(
        self, who: Array, epoch: Array, places: Array, threads: Array, mine: str, theirs: str
    ) -> Fault | None:
        others = (who[places] != _NOBODY) & (who[places] != threads)
        found = np.flatnonzero(others & ~self._is_parted(who, epoch, places, threads))
        if not len(found):
            return None
        place, thread = int(places[found[0]]), int(threads[found[0]])
        return self._race(mine, theirs, place, thread, int(who[place]))

    def _race(self, mine: str, theirs: str, place: int, thread: int, other: int) -> Fault:
        block, lane = divmod(thread, self._width)
        whom = "other threads" if other == _SEVERAL else f"thread {other % self._width}"
        if other != _SEVERAL and other // self._width != block:
            whom += f" of block {other // self._width}"
        return Fault(
            "race",
            self._name,
            f"{mine} of element {place} by thread {lane} of block {block} and {theirs} by {whom} "
            "with no barrier between them",
        )
