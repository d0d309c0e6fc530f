"""Stores the endpoints' health in a table; reads a topic at a time, at most once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

from shared.arm.stored_types import checked
from shared.clock import Clock, ClockNote
from shared.delivery.furthest import Bounds
from shared.delivery.health.endpoint_health import Health
from shared.delivery.health.health_document import document_of, health_of
from shared.engine.caching.cache import Cache, OncePerMinute
from shared.engine.ports import OffLoop, Resource, ResourceStore, StoredHealth, Table, Threads
from shared.errors import UNREADABLE, StorageUnavailable
from shared.subscriptions.subscription import SubscriptionKey
from shared.tasks import Tasks

CACHE_FOR = timedelta(seconds=1)

RecordNote = Callable[[ClockNote, SubscriptionKey], object]
_Rows = Mapping[str, StoredHealth]  # by subscription, in lower case


class TableHealth:
    """
    The endpoints' health, which processes share: a row for each subscription.

    No time of it is further ahead than a rule could put it by *clock*; *record* hears of any.

    What was read is `cached` for a second, and for one more while it is read again or storage does
    not answer; then it is unknown. `ready`, which reads by *off_loop*, and `known` are for the
    event loop; all else blocks.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        store: ResourceStore,
        *,
        threads: Threads,
        off_loop: OffLoop,
        tasks: Tasks,
        clock: Clock,
        record: RecordNote,
    ) -> None:
        self._store = store
        self._off_loop = off_loop
        self._tasks = tasks
        self._clock = clock
        self._record = record
        self._readings: dict[str, asyncio.Task[StoredHealth | None]] = {}
        self._topics = Cache[_Rows](threads, lambda _: CACHE_FOR.total_seconds())
        self._errors = OncePerMinute(threads)

    async def ready(self, key: SubscriptionKey) -> None:
        """
        Return once `known` returns what `cached` would: a topic is read once for all who wait.

        What has expired serves while one reads.
        """
        topic = key.folded.topic
        if self._topics.has(topic):
            return
        reading = self._readings.get(topic)
        if reading is None:
            reading = self._tasks.spawn(self._off_loop(partial(self.cached, key)))
            self._readings[topic] = reading
            reading.add_done_callback(lambda _: self._readings.pop(topic))
        elif self._topics.known(topic) is not None:
            return
        await asyncio.shield(reading)

    def cached(self, key: SubscriptionKey) -> StoredHealth | None:
        """
        Return the row as of a second ago, or two while storage fails; never raises.

        ``None``: there is none, or storage fails for longer.
        """
        topic, name = key.folded
        try:
            rows = self._topics.get(topic, lambda: self._rows(topic), lambda _: True)
        except StorageUnavailable as error:
            self._errors.log("health.unread", topic, topic=key.topic, detail=str(error))
            return None
        return rows.get(name)

    def known(self, key: SubscriptionKey) -> StoredHealth | None:
        """Return the row as `cached` does, but without a read."""
        rows = self._topics.known(key.folded.topic) or {}
        return rows.get(key.folded.subscription)

    def read(self, key: SubscriptionKey) -> StoredHealth | None:
        """Return what is stored now."""
        resource = self._store.get(Table.ENDPOINT_HEALTH, *key)
        return self._stored(key.topic, resource) if resource else None

    def write(self, key: SubscriptionKey, health: Health, etag: str | None) -> StoredHealth:
        """
        Store it: only over the row of *etag*, or, with ``None``, only where there is none.

        Return the row.

        Raises:
            Conflict: another process was first.
        """
        document = {"name": key.subscription, **document_of(health)}
        written = self._store.put(Table.ENDPOINT_HEALTH, *key, document, etag)
        topic, name = key.folded
        row = StoredHealth(health, written.etag)
        self._topics.update(topic, lambda rows: {**rows, name: row})
        return row

    def _rows(self, topic: str) -> _Rows:
        resources = self._store.list(Table.ENDPOINT_HEALTH, topic)
        return {each.name: self._stored(topic, each) for each in resources}

    def _stored(self, topic: str, row: Resource) -> StoredHealth:
        bounds = Bounds(self._clock.now())
        try:
            health = checked(health_of(row.document, bounds))
        except UNREADABLE as error:
            self._errors.log_row("health.unreadable", Table.ENDPOINT_HEALTH, topic, row, error)
            # The health of no endpoint: it has no effect, and the next write replaces it.
            health = Health(endpoint="")
        for note in bounds.notes:
            self._record(note, SubscriptionKey(topic, row.name))
        return StoredHealth(health, row.etag, bool(bounds.ahead))
