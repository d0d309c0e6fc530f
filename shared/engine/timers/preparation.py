"""Prepares storage, once in each process: makes the queues, and notes when all began."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.clock import Clock, timestamp
from shared.engine.ports import STATE, Queue, QueueWatch, Resource, ResourceStore, Table
from shared.errors import UNREADABLE, Conflict, StorageUnavailable

AGAIN_AFTER = timedelta(minutes=1)  # storage has failed
_FIRST_START = "first-start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """
    Makes all queues, and records the deployment's first start, beside the first run or request.

    A host that polls a queue that is missing logs a warning of twelve lines each time.
    """

    watch: QueueWatch
    state: ResourceStore
    clock: Clock
    sleep: Callable[[float], object]  # takes seconds

    def run(self) -> None:
        """Do both; while storage fails, which the adapters log, try again each minute."""
        while True:
            with suppress(StorageUnavailable):
                for queue in Queue:
                    self.watch.make(queue)
                self._record_first_start()
                return
            self.sleep(AGAIN_AFTER.total_seconds())

    def _record_first_start(self) -> None:
        key = Table.TOPICS, STATE, _FIRST_START
        if self.state.get(*key) is None:
            with suppress(Conflict):  # Another process was first.
                self.state.put(*key, {"at": timestamp(self.clock.now())}, None)


def first_start(rows: Iterable[Resource]) -> datetime | None:
    """Return when the first process of the deployment began, if that was recorded."""
    for each in rows:
        if each.name == _FIRST_START:
            with suppress(*UNREADABLE):
                return datetime.fromisoformat(each.document["at"]).astimezone(UTC)
    return None
