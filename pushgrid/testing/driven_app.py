"""A deployment in memory, its clock driven by a test: what is behind the fixture `pushgrid`."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from pushgrid.testing.composition import ACCOUNT, InMemoryApp
from pushgrid.testing.memory import FakeClock, MemoryStore, StoredMessage, off_loop
from pushgrid.testing.subscriber import WebhookPusher
from shared.adapters.azure_storage.traits import AZURE_STORAGE
from shared.clock import Deadline
from shared.engine.ports import Queue, StoreTraits
from shared.events.notices import WrittenBlob
from shared.http import HttpAnswer, HttpRequest

GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/local"
ACCOUNT_ID = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/{ACCOUNT}"
_PROVIDER = f"{GROUP}/providers/Microsoft.EventGrid"
_URL = "https://pushgrid.example"
_API_VERSION = "2025-02-15"
_WAKE_EVERY, _WRITE_DEAD_LETTERS_EVERY = timedelta(minutes=1), timedelta(minutes=5)  # as on Azure
_MIDNIGHT = datetime(2000, 1, 1, tzinfo=UTC)

_TOPIC = re.compile(r"/topics/(?P<topic>[^/]+)/api/events")
_NAMESPACE_TOPIC = re.compile(r"/namespaces/(?P<namespace>[^/]+)/topics/(?P<action>.+)")
_STATUS = re.compile(r"/status/(?P<what>[^/]+)")
_LINK = re.compile(r"/validate/(?P<id>[^/]+)")


class Refused(Exception):
    """The deployment refused a request, with *status*; the message says why."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(f"{answer.status}: {answer.body.decode()}")
        self.status = answer.status


class Unsettled(Exception):
    """There is no end to what is due at one moment."""


class _Due(NamedTuple):
    at: datetime
    run: Callable[[], None]


class DrivenApp(InMemoryApp):
    """
    The app of `Pushgrid`, and its clock.

    Everything happens in the order in which it is due. What has begun is finished, though time
    passes: a push that gets no answer takes its timeout. Retries have no jitter until the test
    calls `randomize`.
    """

    max_steps = 10_000  # at one moment

    def __init__(self, until_end: ExitStack, traits: StoreTraits = AZURE_STORAGE) -> None:
        self._until_end = until_end
        self._has_url = False
        self._is_running = False
        self._delivering: dict[str, asyncio.Task[None]] = {}  # by their messages
        self._containers = itertools.count(1)
        clock = FakeClock()
        self.endpoints = WebhookPusher(clock)
        super().__init__(
            self.endpoints,
            clock,
            MemoryStore(clock, off_loop, traits),
            cache_for=timedelta(seconds=30),
            public_url=_URL,
            allow_http=True,
        )
        until_end.callback(self.loop.end)

    @property
    def url(self) -> str:
        if not self._has_url:
            # Imported here: it takes as long as all of the app.
            from pushgrid.testing.in_process_http import requests_answered

            self._until_end.enter_context(requests_answered(_URL, self.http))
            self._has_url = True
        return _URL

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def change_blob(self, blob: WrittenBlob) -> None:
        """Tell who subscribes to the storage account of a blob; then do what is due now."""
        self.blob_notices.changed(blob)
        self._run_until(self.now)

    def arm(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Any:
        """Do as `Pushgrid.arm`."""
        target = path if path.startswith("/") else f"{_PROVIDER}/{path}"
        target += f"{'&' if '?' in path else '?'}api-version={_API_VERSION}"
        body = b"" if document is None else json.dumps(document).encode()
        answer = self.http(method, target, {"Authorization": f"Bearer {self.admin_key}"}, body)
        if answer.status >= 400:  # noqa: PLR2004 - an error
            raise Refused(answer)
        return json.loads(answer.body) if answer.body else None

    def http(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpAnswer:
        """
        Answer a request to the deployment as a host would; then do what is due now.

        *target* is a path with its query.
        """
        parts = urlsplit(target)
        request = partial(
            HttpRequest,
            method=method,
            url=f"{_URL}{target}",
            headers={name.lower(): value for name, value in headers.items()},
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            body=body,
        )
        if route := _TOPIC.fullmatch(parts.path) or _NAMESPACE_TOPIC.fullmatch(parts.path):
            params = {name: unquote(value) for name, value in route.groupdict().items()}
            answer = self.loop.run(self.publish.run(request(params=params)))
        elif route := _STATUS.fullmatch(parts.path):
            answer = self.status.run(request(params=route.groupdict()))
        elif route := _LINK.fullmatch(parts.path):
            answer = self.validate.run(request(params=route.groupdict()))
        else:
            answer = self.manage.run(request())
        self._run_until(self.now)
        return answer

    def new_container(self) -> dict[str, Any]:
        """Return the ARM document of a dead-letter destination that no other subscription has."""
        name = f"dead-letters-{next(self._containers)}"
        properties = {"resourceId": ACCOUNT_ID, "blobContainerName": name}
        return {"endpointType": "StorageBlob", "properties": properties}

    def advance(self, by: timedelta) -> None:
        """Let time pass; do what becomes due, when it does. Raises as `Pushgrid.advance`."""
        if self._is_running:
            raise RuntimeError("A handler can't advance the clock: the test does.")
        until = self.now + by
        self._run_until(until)
        self.loop.advance(max(until - self.now, timedelta()))

    def randomize(self, seed: int) -> None:
        self.chance.jitter = random.Random(seed).random

    def new_id(self) -> str:
        """Return a new UUID, the same in each run of the test."""
        return self.chance.id()

    def _run_until(self, until: datetime) -> None:
        if self._is_running:  # a handler published: it is done after what is being done
            return
        self._is_running = True
        try:
            self._work_off(until)
        finally:
            self._is_running = False
        if failed := self.endpoints.failed_assertion:
            self.endpoints.failed_assertion = None
            raise failed

    def _work_off(self, until: datetime) -> None:
        """Do all that is due until then, and finish what has begun."""
        steps: Counter[datetime] = Counter()
        while True:
            self.loop.settle()
            due, timer = self._next(), self.loop.next_in
            if due and due.at <= until and (timer is None or due.at < self.now + timer):
                self._count(steps, due.at)
                self.clock.advance(due.at - self.now)
                due.run()
            elif timer is not None and (self._delivering or self.now + timer <= until):
                self.clock.advance(timer)
            else:
                break

    def _count(self, steps: Counter[datetime], at: datetime) -> None:
        steps[at] += 1
        if steps[at] > self.max_steps:
            stored = self.queues.stored
            left = ", ".join(f"{len(stored[each])} on '{each}'" for each in Queue if stored[each])
            raise Unsettled(
                f"After {self.max_steps} deliveries at {at} more are due at this moment ({left}). "
                "Does a handler publish the events that it gets?"
            )

    def _next(self) -> _Due | None:
        """Return what is due first: of equals, a timer's run is last."""
        due = []
        triggering = self.queues.earliest(
            Queue.DELIVERIES, Queue.RETRIES, besides=self._delivering.keys()
        )
        if triggering and len(self._delivering) < self.store.traits.most_in_hand:
            due.append(_Due(self._not_before_now(triggering), partial(self._begin, *triggering)))
        if waiting := self.queues.earliest(Queue.WAITING):
            at = _tick(self._not_before_now(waiting), _WAKE_EVERY)
            due.append(_Due(at, lambda: self.wake.run(self._deadline())))
        if dead := self.queues.earliest(Queue.DEADLETTERS):
            at = _tick(self._not_before_now(dead), _WRITE_DEAD_LETTERS_EVERY)
            due.append(_Due(at, lambda: self.write_dead_letters.run(self._deadline())))
        return min(due, key=lambda each: each.at, default=None)

    def _deadline(self) -> Deadline:
        return Deadline(_WAKE_EVERY, self.clock.monotonic)

    def _not_before_now(self, found: tuple[Queue, StoredMessage]) -> datetime:
        return max(found[1].visible_at, self.now)

    def _begin(self, queue: Queue, message: StoredMessage) -> None:
        self._delivering[message.identity] = self.loop.create_task(self._deliver(queue, message))

    async def _deliver(self, queue: Queue, message: StoredMessage) -> None:
        try:
            await self.deliver.run(message.text.encode(), queue)
            self.queues.stored[queue].remove(message)
        finally:
            del self._delivering[message.identity]


def _tick(moment: datetime, every: timedelta) -> datetime:
    """Return the first time from *moment* on at which a timer runs."""
    return moment + (_MIDNIGHT - moment) % every
