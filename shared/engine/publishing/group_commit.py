"""
Commits publications together, on the event loop of their requests.

A request that finds no commit under way begins one; there is no timer. What arrives meanwhile
gathers, and is the next commit. Where more gathers than one commit takes, full commits run side by
side.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from shared.delivery.messages.publication import Load, Publication
from shared.engine.publishing.commit import CommitResult
from shared.errors import StorageUnavailable
from shared.tasks import Tasks

MAX_UNDER_WAY = 5  # commits; at most one of them is not full, and only that one is the last
MAX_WAITING = 32_000_000  # bytes of events; they take a few times as much memory

# 16 full messages, as many as are put at a time; as much as one request may have.
LIMIT = Load(requests=64, deliveries=1024, size=1_536_000)

_Result = CommitResult | BaseException


@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """A request that waits for the result of its commit."""

    publication: Publication
    result: asyncio.Future[None]

    def answer(self, result: _Result) -> None:
        if self.result.done():  # It has given up.
            return
        if result is None:
            self.result.set_result(None)
        elif isinstance(result, StorageUnavailable):
            self.result.set_exception(result)
        else:
            self.result.set_exception(RuntimeError(f"the commit failed: {result!r}"))


class CommitGroup(NamedTuple):
    """The requests of one commit, at least one. Full: what waited has filled it."""

    requests: tuple[Waiter, ...]
    is_full: bool


class Gathering:
    """The requests that wait, by topic, and the commits that are under way. Not thread-safe."""

    def __init__(self, limit: Load = LIMIT) -> None:
        self._limit = limit
        # By topic: the first one's turn is next.
        self._waiting: OrderedDict[str, deque[Waiter]] = OrderedDict()
        self._load = Load()
        self._full = 0  # commits under way that are full
        self._partial = False  # whether one that is not full is under way

    def arrive(self, request: Waiter) -> None:
        """Add a request."""
        self._waiting.setdefault(request.publication.topic, deque()).append(request)
        self._load = self._load.plus(request.publication.load)

    def finish(self, group: CommitGroup) -> None:
        """Note the end of a commit."""
        if group.is_full:
            self._full -= 1
        else:
            self._partial = False

    def withdraw(self, request: Waiter) -> bool:
        """Remove a request that waits; ``False`` if it is in a commit by now."""
        waiting = self._waiting.get(request.publication.topic)
        if not waiting or request not in waiting:
            return False
        waiting.remove(request)
        self._forget(request.publication)
        return True

    @property
    def has_room(self) -> bool:
        """Whether another request may wait: the memory of those that do is bounded."""
        return self._load.size < MAX_WAITING

    @property
    def is_full(self) -> bool:
        """Whether what waits fills a commit."""
        return self._load.reaches(self._limit)

    def begin(self) -> list[CommitGroup]:
        """Return the commits that begin now."""
        begun = []
        while self._waiting:
            is_full = self.is_full
            if self._full == MAX_UNDER_WAY - 1 if is_full else self._partial:
                break
            begun.append(CommitGroup(tuple(self._take()), is_full))
            if is_full:
                self._full += 1
            else:
                self._partial = True
        return begun

    def _take(self) -> list[Waiter]:
        """
        Take what one commit may have: a request of each topic in turn, at least one request.

        A topic whose next request does not fit is the first in the next commit.
        """
        taken: list[Waiter] = []
        load = Load()
        turns = deque(self._waiting)
        while turns:
            topic = turns.popleft()
            request = self._waiting[topic][0]
            more = load.plus(request.publication.load)
            if taken and more.exceeds(self._limit):
                continue
            load = more
            taken.append(request)
            self._waiting[topic].popleft()
            self._waiting.move_to_end(topic)
            self._forget(request.publication)
            if topic in self._waiting:
                turns.append(topic)
        return taken

    def _forget(self, publication: Publication) -> None:
        self._load = self._load.minus(publication.load)
        if not self._waiting[publication.topic]:
            del self._waiting[publication.topic]


class GroupCommit:
    """
    Implements the port ``Commits``: while commits are under way, the loop gathers the next.

    *commit* stores publications and returns the result of each. All calls are made on one loop.
    Who is cancelled is in no later commit; what is in one by then may be stored.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Publication]], Awaitable[Sequence[CommitResult]]],
        tasks: Tasks,
    ) -> None:
        self._commit = commit
        self._tasks = tasks
        self._gathering = Gathering()
        self._is_beginning = self._has_arrivals = False

    async def commit(self, publication: Publication) -> None:
        if not self._gathering.has_room:
            raise StorageUnavailable
        waiter = Waiter(publication, asyncio.get_running_loop().create_future())
        self._gathering.arrive(waiter)
        self._begin_soon()
        try:
            await waiter.result
        except asyncio.CancelledError:
            self._gathering.withdraw(waiter)  # unless it is in a commit by now
            raise

    def _begin_soon(self) -> None:
        """Begin commits once the loop has read all requests that are there: they join."""
        self._has_arrivals = True
        if not self._is_beginning:
            self._is_beginning = True
            self._after_a_turn(self._begin)

    def _begin(self) -> None:
        if self._has_arrivals and not self._gathering.is_full:
            self._has_arrivals = False
            self._after_a_turn(self._begin)
            return
        self._is_beginning = False
        for group in self._gathering.begin():
            self._start(group)

    def _start(self, group: CommitGroup) -> None:
        storing = self._store([each.publication for each in group.requests])
        # It is no request's own, and does not end with one.
        self._tasks.spawn(storing).add_done_callback(partial(self._stored, group))

    def _stored(
        self,
        group: CommitGroup,
        task: asyncio.Task[Sequence[_Result]],
    ) -> None:
        lost = [StorageUnavailable()] * len(group.requests)  # The process ends.
        self._finish(group, lost if task.cancelled() else task.result())

    async def _store(self, publications: Sequence[Publication]) -> Sequence[_Result]:
        try:
            results: Sequence[_Result] = await self._commit(publications)
        except Exception as error:  # noqa: BLE001 - raised in each request
            return [error] * len(publications)
        is_complete = len(results) == len(publications)
        return results if is_complete else [ValueError("a result is missing")] * len(publications)

    def _finish(self, group: CommitGroup, results: Sequence[_Result]) -> None:
        for waiter, result in zip(group.requests, results, strict=True):
            waiter.answer(result)
        self._gathering.finish(group)
        self._begin_soon()

    def _after_a_turn(self, call: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, call)
