"""Publishes all kinds of requests to a deployment, and answers its pushes in all kinds of ways."""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import requests

from bench.soak.ledger import Ledger, Promise
from testbed.arm import Arm, dead_letter_destination
from testbed.subscriber import Push

TOPIC = "orders"
GROUP, TICK = 6, 1.5  # publishers of single events, who all send once in so many seconds
MOST_OPEN = 300  # promises: publishers wait for the deliveries, so that a slow machine suffices
_SECONDS = 60  # for a request

_every_fifth, _every_eighth = itertools.count(), itertools.count()


def _hash(push: Push) -> int:
    return crc32(push.events[0]["id"].encode())


def _flaky(push: Push) -> int:
    """Fail the first attempt of one event in six."""
    return 503 if push.headers["aeg-delivery-count"] == "0" and _hash(push) % 6 == 0 else 200


def _failing_batches(_: Push) -> int:
    return 500 if next(_every_fifth) % 5 == 4 else 200


def _refusing(push: Push) -> int:
    """Refuse one event in three, at every attempt."""
    return 400 if _hash(push) % 3 == 0 else 200


def _slow(_: Push) -> int:
    """Take longer than a second now and then: that part of a message is handed over."""
    if next(_every_eighth) % 8 == 7:
        time.sleep(1.3)
    return 200


ANSWERS: dict[str, Callable[[Push], int]] = {
    "steady": lambda _: 200,
    "flaky": _flaky,
    "batched": _failing_batches,
    "refusing": _refusing,
    "slow": _slow,
}


def container_of(name: str) -> str:
    """Return the container of a subscription's dead letters."""
    return f"dead-{name}"


def subscribe(arm: Arm, account: str, url_of: Callable[[str], str]) -> None:
    """Create the topic with a subscription of each kind; *url_of* names a subscription's URL."""
    arm.create_topic(TOPIC)
    for name in ANSWERS:
        arm.create_subscription(
            TOPIC,
            name,
            url_of(name),
            {"maxEventsPerBatch": 10} if name == "batched" else None,
            deadLetterDestination=dead_letter_destination(account, container_of(name)),
        )


@dataclass(slots=True, kw_only=True)
class Traffic:
    """
    Publishers that pause and go on.

    They are given where to publish at each request, as hosts come and go. They never repeat a
    request: what is not answered 200 was not promised.
    """

    url: Callable[[], str]
    key: str
    hook: str
    ledger: Callable[[], Ledger]
    _flows: threading.Event = field(default_factory=threading.Event)
    _ends: threading.Event = field(default_factory=threading.Event)
    _sending: set[str] = field(default_factory=set)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Keep the publishers until the block ends; they begin paused."""
        kinds: list[Callable[[], None]] = [self._publish_one] * GROUP
        kinds += [self._publish_batch, self._publish_large, self._manage]
        threads = [
            threading.Thread(target=self._repeat, args=(send,), daemon=True) for send in kinds
        ]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self._ends.set()
            self._flows.set()
            for each in threads:
                each.join()

    @contextlib.contextmanager
    def flowing(self) -> Iterator[None]:
        """Let them publish until the block ends, and wait until all requests have ended."""
        self._flows.set()
        try:
            yield
        finally:
            self._flows.clear()
            while self._sending:
                time.sleep(0.05)

    def _repeat(self, send: Callable[[], None]) -> None:
        me = str(threading.get_ident())
        while not self._ends.is_set():
            self._flows.wait()
            time.sleep(TICK - time.monotonic() % TICK)  # all at once: they share commits
            self._sending.add(me)
            try:
                if self._flows.is_set() and len(self.ledger().open) < MOST_OPEN:
                    with contextlib.suppress(requests.RequestException):
                        send()
            finally:
                self._sending.discard(me)

    def _publish_one(self) -> None:
        self.publish(TOPIC, self.key, list(ANSWERS), [{}])

    def _publish_batch(self) -> None:
        self.publish(TOPIC, self.key, list(ANSWERS), [{}] * 12)

    def _publish_large(self) -> None:
        """Publish what does not fit into a message, compressed as it may be."""
        data = [{"text": secrets.token_urlsafe(45_000)} for _ in range(2)]
        self.publish(TOPIC, self.key, list(ANSWERS), data)

    def _manage(self) -> None:
        """Create a topic with two subscriptions and delete one; then the other gets its events."""
        arm, name = Arm(self.url()), f"m-{uuid.uuid4().hex[:12]}"
        arm.create_topic(name)
        arm.create_subscription(name, "spare", f"{self.hook}/spare")
        arm.create_subscription(name, "kept", f"{self.hook}/{name}")
        arm.delete_subscription(name, "spare")
        self.publish(name, arm.key(name), [name], [{}])

    def publish(
        self, topic: str, key: str, subscriptions: Sequence[str], data: Sequence[Any]
    ) -> None:
        """Publish an event for each of *data*; they are accepted if the answer is 200."""
        ids = [uuid.uuid4().hex for _ in data]
        event = {"subject": "/a", "eventType": "T", "eventTime": "2026-01-01T00:00:00Z"}
        body = [event | {"id": each, "data": one} for each, one in zip(ids, data, strict=True)]
        ledger = self.ledger()
        answer = requests.post(
            f"{self.url()}/topics/{topic}/api/events",
            json.dumps(body),
            headers={"aeg-sas-key": key, "Content-Type": "application/json"},
            timeout=_SECONDS,
        )
        if answer.status_code == 200:
            ledger.accept(itertools.product(subscriptions, ids))


def promises_of(push: Push) -> list[Promise]:
    """Return what a push keeps, if it is accepted; the last segment names the subscription."""
    name = push.path.rpartition("/")[2]
    return [(name, event["id"]) for event in push.events]
