"""Plays conformance cases on a running host, all at the same time, and keeps what was seen."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from testbed.arm import Arm, queue_destination
from testbed.subscriber import Push, Subscriber, running_subscriber
from tests.conformance.editions import Case
from tests.conformance.scaled import SCALE
from tests.e2e.dead_letters import AnyDeadLetters
from tests.e2e.publishing import an_event, send
from tests.integration.push.authority import Authority
from tests.integration.push.entra import TENANT, Entra

_SETUP_THREADS = 4
_POLL_EVERY = 0.25  # seconds
_BETWEEN_EDITIONS = 1.0  # seconds: first attempts of all cases at once would wait for each other
_UNSEEN = {"refused", "unsendable", "no-token"}  # nobody but the host knows of such an attempt

STORAGE = "stage1"  # the account of the queues of cases for Azure resources
PROTECTION = {
    "azureActiveDirectoryTenantId": TENANT,
    "azureActiveDirectoryApplicationIdOrUri": "api://hook",
}


def settings_of(entra: Entra, authority: Authority) -> dict[str, str]:
    """Return the settings of a deployment that plays the cases with tokens of *entra*."""
    return {
        "PUSHGRID_TIME_SCALE": str(SCALE),
        "PUSHGRID_WEBHOOK_CLIENT_ID": "66666666-7777-8888-9999-aaaaaaaaaaaa",
        "PUSHGRID_WEBHOOK_CLIENT_SECRET": "s3cret-of-the-app",
        "PUSHGRID_WEBHOOK_AUTHORITY": entra.url,
        "REQUESTS_CA_BUNDLE": str(authority.bundle),
    }


@dataclass(slots=True, kw_only=True)
class Observed:
    """
    What was seen of one case; times are Unix times.

    The event was accepted between *sent_at* and *accepted_at*. *attempts* holds each attempt's time
    and, where a request arrived, its headers. *planned* is, for each failure, when the host logged
    it and when it wants to try again. *ended* is the reason of the end and when the host logged
    it, *dropped* the reason of a drop. *blob* is the dead letter and when it was found.
    """

    case: Case
    name: str
    sent_at: float = 0.0
    accepted_at: float = 0.0
    attempts: list[tuple[float, Push | None]] = field(default_factory=list)
    planned: list[tuple[float, float]] = field(default_factory=list)
    ended: tuple[float, str] | None = None
    dropped: str | None = None
    blob: tuple[float, dict[str, Any]] | None = None

    @property
    def is_over(self) -> bool:
        if self.case.end.state == "delivered":
            return len(self.attempts) >= len(self.case.attempts)
        return self.blob is not None or self.dropped is not None


@dataclass(slots=True, kw_only=True)
class Stage:
    """
    A host with one topic for each edition and one subscription for each case.

    `on_line` takes what the host logs. *entra* gives tokens for the handshakes, and then refuses.
    *spoil* replaces, in what is stored of a topic's subscription, one URL by another.
    """

    cases: Sequence[Case]
    letters: AnyDeadLetters
    spoil: Callable[[str, str, str, str], object]
    entra: Entra
    seen: dict[str, Observed] = field(init=False)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _doors: dict[str, tuple[int, ExitStack]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seen = {
            name: Observed(case=case, name=name)
            for number, case in enumerate(self.cases)
            if (name := f"case-{number}")
        }

    def play(self, url: str, seconds: float) -> None:
        """Play all cases to their ends, or for so many *seconds* after they were published."""
        arm = Arm(url)
        with ExitStack() as stack:
            subscriber = stack.enter_context(running_subscriber(self._answer))
            stack.callback(self._is_over.set)  # lets go of those who wait for an answer
            editions = sorted({case.profile for case in self.cases})
            for edition in editions:
                arm.create_topic(_topic(edition), profile=edition)
            with ThreadPoolExecutor(_SETUP_THREADS) as pool:
                list(
                    pool.map(
                        lambda seen: self._subscribe(arm, seen, subscriber, stack),
                        self.seen.values(),
                    )
                )
            # The handshakes' tokens have ended before the first event of `ns`, the last edition.
            self.entra.refusal = "AADSTS7000215: Invalid client secret provided."
            with ThreadPoolExecutor(1) as pool:
                publishing = pool.submit(self._publish_all, arm, editions)
                self._watch(time.time() + seconds)
                publishing.result()

    def on_line(self, line: str) -> None:
        """Take one line of the host's output."""
        if '"event":"delivery.' not in line:
            return
        entry = json.loads(line[line.index("{") :])
        seen = self.seen.get(entry.get("subscription", ""))
        if seen is None:
            return
        now = time.time()
        event = entry["event"]
        with self._lock:
            if event == "delivery.attempted" and seen.case.answer(entry["attempt"]) in _UNSEEN:
                seen.attempts.append((now - entry["duration_ms"] / 1000, None))
            if planned := entry.get("next_attempt_at"):
                seen.planned.append((now, datetime.fromisoformat(planned).timestamp()))
            if event == "delivery.ended" or entry.get("decision") == "end":
                seen.ended = (now, entry["reason"])
            if event == "delivery.dropped":
                seen.dropped = entry["reason"]

    def _subscribe(
        self, arm: Arm, seen: Observed, subscriber: Subscriber, stack: ExitStack
    ) -> None:
        case, url = seen.case, subscriber.url.removesuffix("/hook")
        door = None
        if "refused" in case.answers:
            door = stack.enter_context(ExitStack())
            url = door.enter_context(running_subscriber(self._answer)).url.removesuffix("/hook")
        properties: dict[str, Any] = {"filter": {"includedEventTypes": [seen.name]}}
        if case.policy:
            properties["retryPolicy"] = dict(case.policy)
        if case.has_dead_letter:
            properties["deadLetterDestination"] = self.letters.destination
        if case.endpoint == "azure":
            properties["destination"] = queue_destination(STORAGE, seen.name)
        webhook = PROTECTION if "no-token" in case.answers else None
        topic, endpoint = _topic(case.profile), f"{url}/{seen.name}"
        arm.create_subscription(topic, seen.name, endpoint, webhook, **properties)
        if "unsendable" in case.answers:
            # HTTP can't carry it: the management API accepts none.
            self.spoil(topic, seen.name, endpoint, f"{endpoint} spoiled")
        if door:
            door.close()  # Whoever knocks from now on is refused.
            self._doors[seen.name] = int(url.rpartition(":")[2]), door

    def _publish_all(self, arm: Arm, editions: Sequence[str]) -> None:
        for edition in editions:
            self._publish(arm, edition)
            time.sleep(_BETWEEN_EDITIONS)

    def _publish(self, arm: Arm, edition: str) -> None:
        published = [seen for seen in self.seen.values() if seen.case.profile == edition]
        events = [an_event() for _ in published]
        for event, seen in zip(events, published, strict=True):
            event.event_type = seen.name
        key = arm.key(_topic(edition))
        began = time.time()
        send(arm.url, _topic(edition), key, events)
        for seen in published:
            seen.sent_at, seen.accepted_at = began, time.time()

    def answer_put(self, push: Push) -> int:
        """Answer a put into a queue as its storage; a message has no headers of Event Grid."""
        seen = self.seen[push.path.split("/")[2]]
        with self._lock:
            seen.attempts.append((push.at, None))
            answer = int(seen.case.answer(len(seen.attempts)))
        return 201 if answer == 200 else answer

    def _answer(self, push: Push) -> int:
        seen = self.seen[push.path.removeprefix("/")]
        with self._lock:
            seen.attempts.append((push.at, push))
            answer = seen.case.answer(len(seen.attempts))
        if answer == "timeout":
            self._is_over.wait()
            return 503
        return int(answer)

    def _watch(self, until: float) -> None:
        """Open the doors that are to be open, find the blobs, and wait for all ends."""
        while time.time() < until and not all(seen.is_over for seen in self.seen.values()):
            time.sleep(_POLL_EVERY)
            self._open_doors()
            self._find_blobs()

    def _open_doors(self) -> None:
        for name, (port, door) in list(self._doors.items()):
            seen = self.seen[name]
            if seen.attempts and seen.case.answer(len(seen.attempts) + 1) != "refused":
                door.enter_context(running_subscriber(self._answer, port))
                del self._doors[name]

    def _find_blobs(self) -> None:
        for name, letters in self.letters.wait_for(0).items():
            seen = self.seen[name.split("/")[0].lower()]
            if seen.blob is None:
                (document,) = letters
                seen.blob = time.time(), document


def _topic(edition: str) -> str:
    return f"edition-{edition}"
