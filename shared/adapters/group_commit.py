"""Commits publications together, in the threads of their own requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from shared.delivery.messages.publication import Publication
from shared.engine.ports import Committed
from shared.engine.publishing.commit import Result
from shared.engine.publishing.gathering import Gathering, Group
from shared.errors import StorageUnavailable

WAIT_SECONDS = 200.0  # Azure's front end gives a request 230


class _Waiter:
    """A request's thread: sleeps until it has a commit to lead, or the result of one."""

    def __init__(self, publication: Publication) -> None:
        self.publication = publication
        self.group: Group[_Waiter] | None = None
        self.result: Result | BaseException | None = None
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def sleep(self, seconds: float) -> bool:
        """Return whether it was woken; ``False`` if that takes longer than *seconds*."""
        return self._asleep.acquire(timeout=seconds)

    def wake(self) -> None:
        self._asleep.release()


class GroupCommit:
    """
    Implements the port ``Commits``: the thread of a commit's first request makes it for all.

    *commit* stores publications and returns the result of each.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Publication]], Sequence[Result]],
        *,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._commit = commit
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._gathering = Gathering[_Waiter]()

    def commit(self, publication: Publication) -> Committed:
        waiter = _Waiter(publication)
        with self._lock:
            _lead(self._gathering.arrive(waiter))
        if not waiter.sleep(self._wait_seconds):
            with self._lock:
                self._gathering.withdraw(waiter)  # unless it is in a commit by now
        if waiter.group:
            self._run(waiter.group)
        return _outcome(waiter.result)

    def _run(self, group: Group[_Waiter]) -> None:
        try:
            results = self._commit([each.publication for each in group.requests])
            for waiter, result in zip(group.requests, results, strict=True):
                waiter.result = result
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of each request
            for waiter in group.requests:
                waiter.result = error
        with self._lock:
            _lead(self._gathering.finish(group))
        for waiter in group.requests[1:]:
            waiter.wake()


def _lead(groups: Sequence[Group[_Waiter]]) -> None:
    """Let the first request of each commit make it."""
    for group in groups:
        group.requests[0].group = group
        group.requests[0].wake()


def _outcome(result: Result | BaseException | None) -> Committed:
    if isinstance(result, Committed):
        return result
    if result is None or isinstance(result, StorageUnavailable):
        raise StorageUnavailable from result
    raise RuntimeError("the commit failed") from result
