"""Prepares storage for a new deployment: makes the queues, and notes when all began."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from shared.clock import Clock, timestamp
from shared.engine.ports import STATE, Queue, QueueWatch, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, Conflict, StorageUnavailable

_FIRST_START = "first-start"
_ROW = (Table.TOPICS, STATE, _FIRST_START)


@dataclass(slots=True, kw_only=True)
class Preparation:
    """
    Records the deployment's first start and makes all queues, beside a first run or request.

    Once that is recorded, a process reads the row and does no more; the dead-letter timer makes
    what is missing. A host that polls a missing queue logs a warning of twelve lines each time.
    """

    watch: QueueWatch
    queues: Sequence[Queue]
    state: ResourceStore
    clock: Clock
    _left: Sequence[Callable[[], object]] | None = None  # ``None``: that is not read yet

    def run(self) -> bool:
        """Do what is left; tell whether that was all. What fails stays, and the adapters log it."""
        with suppress(StorageUnavailable):
            left = self._steps() if self._left is None else self._left
            self._left = [each for each in left if not _succeeds(each)]
        return self._left is not None and not self._left

    def _steps(self) -> Sequence[Callable[[], object]]:
        if self.state.get(*_ROW) is not None:
            return ()
        makes = [partial(self.watch.make, queue) for queue in self.queues]
        return (self._record_first_start, *makes)

    def _record_first_start(self) -> None:
        with suppress(Conflict):  # Another process was first.
            self.state.put(*_ROW, {"at": timestamp(self.clock.now())}, None)


def _succeeds(step: Callable[[], object]) -> bool:
    with suppress(StorageUnavailable):
        step()
        return True
    return False


def first_start(rows: Iterable[Resource]) -> datetime | None:
    """Return when the first process of the deployment began, if that was recorded."""
    for each in rows:
        if each.name == _FIRST_START:
            with suppress(*UNREADABLE):
                return datetime.fromisoformat(each.document["at"]).astimezone(UTC)
    return None
