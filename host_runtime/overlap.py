"""Runs the steps of several samples on two threads: one for the host, one for the accelerator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from threading import Condition, Thread
from typing import Generic, TypeVar, final

from host_runtime.schedule import AHEAD, SIDES, Plan, Side, Standing, next_step

_T = TypeVar("_T")


def overlapped(
    samples: Iterable[_T], plan: Plan, run: Callable[[_T, int], None], ahead: int = AHEAD
) -> Generator[_T]:
    """Yield the samples in order, each when `run(sample, step)` has run for all steps of the plan.

    At most `ahead` samples are under way; `samples` is read in the caller's thread. The first error
    ends all as soon as the steps that run have ended. No thread outlives the iterator.
    """
    crew = _Crew(plan, run)
    threads = [Thread(target=crew.work, args=(side,), name=f"codesign-{side}") for side in SIDES]
    for thread in threads:
        thread.start()
    try:
        for under_way, sample in enumerate(samples, start=1):
            crew.add(sample)
            if under_way >= ahead:
                yield crew.oldest()
        while crew.is_busy:
            yield crew.oldest()
    finally:
        crew.stop()
        for thread in threads:
            thread.join()


@final
class _Crew(Generic[_T]):
    """The samples under way, oldest first, and who works on them."""

    def __init__(self, plan: Plan, run: Callable[[_T, int], None]) -> None:
        self._plan = plan
        self._run = run
        self._changed = Condition()
        self._under_way: deque[tuple[_T, Standing]] = deque()
        self._error: BaseException | None = None
        self._has_stopped = False

    @property
    def is_busy(self) -> bool:
        return bool(self._under_way)

    def add(self, sample: _T) -> None:
        with self._changed:
            self._under_way.append((sample, Standing()))
            self._changed.notify_all()

    def oldest(self) -> _T:
        """Return the oldest sample when it is done; raise the error of any."""
        with self._changed:
            sample, standing = self._under_way[0]
            self._changed.wait_for(
                lambda: self._error is not None or len(standing.done) == len(self._plan)
            )
            if self._error is not None:
                raise self._error
            self._under_way.popleft()
            return sample

    def stop(self) -> None:
        with self._changed:
            self._has_stopped = True
            self._changed.notify_all()

    def work(self, side: Side) -> None:
        """Run what is ready for a side, until all stops."""
        while (found := self._begun(side)) is not None:
            sample, standing, step = found
            try:
                self._run(sample, step)
            except BaseException as error:
                self._fail(error)  # the caller's thread raises it
                return
            with self._changed:
                standing.done.add(step)
                self._changed.notify_all()

    def _begun(self, side: Side) -> tuple[_T, Standing, int] | None:
        """Wait for a step and mark it as begun; None: there will be no more."""
        with self._changed:
            while not self._has_stopped:
                found = next_step(self._plan, (each for _, each in self._under_way), side)
                if found is not None:
                    sample, standing = self._under_way[found[0]]
                    standing.begun.add(found[1])
                    return sample, standing, found[1]
                self._changed.wait()
            return None

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._has_stopped = True
            self._changed.notify_all()
