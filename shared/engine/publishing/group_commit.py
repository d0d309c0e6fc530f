"""Commits publications together, on the event loop of their requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from functools import partial

from shared.delivery.messages.publication import Publication
from shared.engine.publishing.commit import CommitResult
from shared.engine.publishing.gathering import CommitGroup, Gathering
from shared.errors import StorageUnavailable

_Result = CommitResult | BaseException


class _Waiter:
    """A request that waits for the result of its commit."""

    def __init__(self, publication: Publication, result: asyncio.Future[None]) -> None:
        self.publication = publication
        self.result = result

    def answer(self, result: _Result) -> None:
        if self.result.done():  # It has given up.
            return
        if result is None:
            self.result.set_result(None)
        elif isinstance(result, StorageUnavailable):
            self.result.set_exception(result)
        else:
            self.result.set_exception(RuntimeError(f"the commit failed: {result!r}"))


class GroupCommit:
    """
    Implements the port ``Commits``: while commits are under way, the loop gathers the next.

    *commit* stores publications and returns the result of each. All calls are made on one loop.
    Who is cancelled is in no later commit; what is in one by then may be stored.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Publication]], Awaitable[Sequence[CommitResult]]],
    ) -> None:
        self._commit = commit
        self._gathering = Gathering[_Waiter]()
        self._under_way: set[asyncio.Task[Sequence[_Result]]] = set()
        self._is_beginning = self._has_arrivals = False

    async def commit(self, publication: Publication) -> None:
        if not self._gathering.has_room:
            raise StorageUnavailable
        waiter = _Waiter(publication, asyncio.get_running_loop().create_future())
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

    def _start(self, group: CommitGroup[_Waiter]) -> None:
        storing = self._store([each.publication for each in group.requests])
        # It is no request's own: it has no request's context, and does not end with one.
        task = asyncio.get_running_loop().create_task(storing, context=Context())
        self._under_way.add(task)
        task.add_done_callback(partial(self._stored, group))

    def _stored(
        self,
        group: CommitGroup[_Waiter],
        task: asyncio.Task[Sequence[_Result]],
    ) -> None:
        self._under_way.discard(task)
        lost = [StorageUnavailable()] * len(group.requests)  # The process ends.
        self._finish(group, lost if task.cancelled() else task.result())

    async def _store(self, publications: Sequence[Publication]) -> Sequence[_Result]:
        try:
            results: Sequence[_Result] = await self._commit(publications)
        except Exception as error:  # noqa: BLE001 - raised in each request
            return [error] * len(publications)
        is_complete = len(results) == len(publications)
        return results if is_complete else [ValueError("a result is missing")] * len(publications)

    def _finish(self, group: CommitGroup[_Waiter], results: Sequence[_Result]) -> None:
        for waiter, result in zip(group.requests, results, strict=True):
            waiter.answer(result)
        self._gathering.finish(group)
        self._begin_soon()

    def _after_a_turn(self, call: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, call)
