"""Publishes all kinds of requests to a deployment, and answers its pushes in all kinds of ways."""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

import requests

from bench.soak.ledger import Event, Ledger, Occurrence, events_in
from testbed.arm import Arm, dead_letter_destination
from testbed.subscriber import Push

TOPIC = "orders"
GROUP, TICK = 6, 1.5  # publishers of single events, who all send once in so many seconds
MOST_OPEN = 300  # promises: publishers wait for the deliveries, so that a slow machine suffices
_SECONDS = 60  # for a request
_BATCH = 14  # events of a request: more than an output batch of ten, in several messages
_every_fifth, _every_eighth, _numbers = itertools.count(), itertools.count(), itertools.count()


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


def _failing(push: Push) -> int:
    """Fail all attempts of one event in three."""
    return 503 if _hash(push) % 3 == 0 else 200


def _slow(_: Push) -> int:
    """Take longer than a second now and then: that part of a message is handed over."""
    if next(_every_eighth) % 8 == 7:
        time.sleep(1.3)
    return 200


class Subscription(NamedTuple):
    """What its endpoint answers, the events it wants, and the members of its ARM document."""

    answer: Callable[[Push], int] = lambda _: 200
    wants: Callable[[Event], bool] = lambda _: True
    webhook: Mapping[str, Any] = {}
    properties: Mapping[str, Any] = {}


ATTEMPTS = {"failing": 2}  # at most; 30 for the others
REPLAYED = "replayed"  # gets what is replayed, and nothing else
SUBSCRIPTIONS: dict[str, Subscription] = {
    "steady": Subscription(),
    "flaky": Subscription(_flaky),
    "batched": Subscription(_failing_batches, webhook={"maxEventsPerBatch": 25}),
    "refusing": Subscription(_refusing),
    "slow": Subscription(_slow),
    "filtered": Subscription(
        wants=lambda event: event["subject"].startswith("/near/") and event["data"]["n"] < 5,
        properties={
            "filter": {
                "subjectBeginsWith": "/near/",
                "advancedFilters": [
                    {"operatorType": "NumberLessThan", "key": "data.n", "value": 5}
                ],
            }
        },
    ),
    "failing": Subscription(
        _failing,
        wants=lambda event: event["data"]["n"] == 8,
        properties={
            "retryPolicy": {"maxDeliveryAttempts": ATTEMPTS["failing"]},
            "filter": {
                "advancedFilters": [{"operatorType": "NumberIn", "key": "data.n", "values": [8]}]
            },
        },
    ),
    REPLAYED: Subscription(
        wants=lambda _: False, properties={"filter": {"includedEventTypes": ["never"]}}
    ),
}


def container_of(name: str) -> str:
    """Return the container of a subscription's dead letters."""
    return f"dead-{name}"


def subscribe(arm: Arm, account: str, url_of: Callable[[str], str]) -> None:
    """Create the topic with all subscriptions; *url_of* names a subscription's URL."""
    arm.create_topic(TOPIC)
    for name, each in SUBSCRIPTIONS.items():
        arm.create_subscription(
            TOPIC,
            name,
            url_of(name),
            each.webhook,
            deadLetterDestination=dead_letter_destination(account, container_of(name)),
            **each.properties,
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
        self.publish_each([{}])

    def _publish_batch(self) -> None:
        self.publish_each([{}] * _BATCH)

    def _publish_large(self) -> None:
        """Publish what does not fit into a message, compressed as it may be."""
        self.publish_each([{"text": secrets.token_urlsafe(60_000)} for _ in range(2)])

    def _manage(self) -> None:
        """Create a topic with two subscriptions and delete one; then the other gets its events."""
        arm, name = Arm(self.url()), f"m-{uuid.uuid4().hex[:12]}"
        arm.create_topic(name)
        arm.create_subscription(name, "spare", f"{self.hook}/spare")
        arm.create_subscription(name, "kept", f"{self.hook}/{name}")
        arm.delete_subscription(name, "spare")
        self.publish(name, arm.key(name), [(new_event(), [name])])

    def publish_each(self, data: Sequence[Event]) -> None:
        """Publish an event for each of *data* to the topic: its subscriptions' filters choose."""
        events = [new_event(**each) for each in data]
        wanted = [
            (event, [name for name, each in SUBSCRIPTIONS.items() if each.wants(event)])
            for event in events
        ]
        self.publish(TOPIC, self.key, wanted)

    def publish(self, topic: str, key: str, wanted: Sequence[tuple[Event, Sequence[str]]]) -> None:
        """Publish events, each wanted by some subscriptions; accepted if the answer is 200."""
        ledger, body = self.ledger(), json.dumps([event for event, _ in wanted]).encode()
        for event, (_, names) in zip(events_in(body), wanted, strict=True):
            ledger.send(event, names, time.time())
        answer = requests.post(
            f"{self.url()}/topics/{topic}/api/events",
            body,
            headers={"aeg-sas-key": key, "Content-Type": "application/json"},
            timeout=_SECONDS,
        )
        if answer.status_code == 200:
            ledger.accept([event["id"] for event, _ in wanted], time.time())
            left_out = sum("steady" in names and "filtered" not in names for _, names in wanted)
            ledger.saw(Occurrence.FILTERED, left_out)


def new_event(**data: Any) -> dict[str, Any]:
    """Build an event with one of two subjects and of nine numbers, which filters look at."""
    number = next(_numbers)
    return {
        "id": uuid.uuid4().hex,
        "subject": ("/near/Größe", "/far/a")[number % 2],
        "eventType": "T",
        "eventTime": "2026-01-01T00:00:00Z",
        "dataVersion": "1.0",
        "data": {"n": number // 2 % 9, "total": 0.1, "of": [None, True, "\u2028\u00e9"], **data},
    }
