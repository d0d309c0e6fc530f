"""Judges by Event Grid's rules what became of each delivery that publishers were promised."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

Promise = tuple[str, str]  # a subscription's name, and an event's id
Event = Mapping[str, Any]

DELIVERIES = 64  # at most, in one message; an output batch of the soak has fewer
ATTEMPTS = 30  # of a subscription that chooses none
_BIG = 65_536  # bytes: more than a queue message has
_BATCH = 10
_FINDINGS = 20  # that are kept to be printed

# What Event Grid adds to an event, and to a dead letter (contract, sections 2.2 and 4.2).
_ADDED = frozenset({"topic", "metadataVersion"}) | {
    "deadLetterReason",
    "deliveryAttempts",
    "lastDeliveryOutcome",
    "lastHttpStatusCode",
    "publishTime",
    "lastDeliveryAttemptTime",
}


class Occurrence(StrEnum):
    """What must occur in a soak for its result to count."""

    COMMITS = "commits of several messages"  # requests with more deliveries than one takes
    FILTERED = "events left out by a filter"
    PAUSES = "pauses that kept events back"
    REPLAYED = "replayed events"
    BATCHES = f"batches above {_BATCH}"
    BIG = "big events"


class LedgerSums(NamedTuple):
    """What one or more runs of a scenario came to, in deliveries."""

    scenario: str
    runs: int = 0
    accepted: int = 0
    delivered: int = 0
    dead: int = 0
    unsaved: int = 0  # nowhere, but storage had not saved them when it was killed
    repeated: int = 0  # ends beyond the first
    bound: int = 0  # how many ends the attacks let repeat
    waiting: int = 0  # still in a queue at the end: nothing had changed for minutes
    lost: int = 0  # nowhere
    wrong_ends: int = 0  # dead letters that no rule allows
    changed: int = 0  # with another content than was published
    strays: int = 0  # that no filter or replay wants
    while_paused: int = 0  # pushed although they were published in a pause
    beyond: int = 0  # repeated ones above the bound of their own run

    @property
    def faults(self) -> int:
        """What must not be, in all columns from *waiting* on."""
        judged = (self.waiting, self.lost, self.wrong_ends, self.changed, self.strays)
        return sum((*judged, self.while_paused, self.beyond))

    def plus(self, other: LedgerSums) -> LedgerSums:
        sums = (one + another for one, another in zip(self[1:], other[1:], strict=True))
        return LedgerSums(self.scenario, *sums)


class _Sent(NamedTuple):
    content: str
    to: frozenset[str]
    at: float = 0.0
    is_big: bool = False


@dataclass(slots=True)
class Ledger:
    """
    The entries of one run; they are made from many threads. Times are any clock's, the same for
    all.
    """

    # Limits of subscriptions that choose one.
    attempts: Mapping[str, int] = field(default_factory=dict)
    time_to_live: float = float("inf")  # real seconds
    accepted: dict[Promise, float] = field(default_factory=dict)
    seen: Counter[Occurrence] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    _sent: dict[str, _Sent] = field(default_factory=dict)
    _answers: dict[Promise, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    _delivered: Counter[Promise] = field(default_factory=Counter)
    _dead: Counter[Promise] = field(default_factory=Counter)
    _paused: set[str] = field(default_factory=set)
    _kept_back: set[Promise] = field(default_factory=set)
    _unsaved: set[Promise] = field(default_factory=set)
    _is_cut_off: bool = False
    _faults: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, event: Event, to: Iterable[str], at: float = 0.0) -> None:
        """Enter an event that is about to be published, with the subscriptions that want it."""
        text = _text(event)
        with self._lock:
            sent = _Sent(digest(text), frozenset(to), at, len(text) > _BIG)
            self._sent[event["id"]] = sent
            self._kept_back |= {(name, event["id"]) for name in sent.to & self._paused}

    def accept(self, ids: Sequence[str], at: float = 0.0) -> None:
        """Enter what a publish request had that was answered 200."""
        with self._lock:
            events = [(each, self._sent[each]) for each in ids]
            promises = [(name, each) for each, sent in events for name in sent.to]
            self.accepted.update(dict.fromkeys(promises, at))
            self.seen[Occurrence.COMMITS] += len(promises) > DELIVERIES
            self.seen[Occurrence.BIG] += sum(sent.is_big for _, sent in events)

    def saw(self, occurrence: Occurrence, times: int) -> None:
        with self._lock:
            self.seen[occurrence] += times

    def receive(self, name: str, events: Sequence[Event], status: int) -> None:
        """Enter a push, and how the subscriber answers it."""
        with self._lock:
            self.seen[Occurrence.BATCHES] += len(events) > _BATCH
            for event in events:
                promise = (name, event["id"])
                self._compare(promise, event)
                if promise in self._kept_back:
                    self._find("while_paused", promise)
                self._answers[promise][status] += 1
                if status == 200:
                    self._delivered[promise] += 1

    def bury(self, name: str, letter: Event, at: float = 0.0) -> None:
        """Enter a dead letter: a rule of Event Grid's must allow it, for the reason it gives."""
        with self._lock:
            promise = (name, letter["id"])
            self._compare(promise, letter)
            answers, sent = self._answers[promise], self._sent.get(letter["id"])
            tried = letter["deliveryAttempts"] if self._is_cut_off else answers.total()
            allowed = {
                "UndeliverableDueToHttpBadRequest": answers[400] > 0,
                "MaxDeliveryAttemptsExceeded": tried >= self.attempts.get(name, ATTEMPTS),
                "TimeToLiveExceeded": sent is not None and at - sent.at >= self.time_to_live,
            }
            if not allowed.get(letter["deadLetterReason"], False):
                said = {key: letter.get(key) for key in sorted(_ADDED)}
                self._find("wrong_ends", promise, said, dict(answers))
            self._dead[promise] += 1

    def pause(self, name: str) -> None:
        """Enter a pause that is in force everywhere: what is sent from now on has to wait."""
        with self._lock:
            self._paused.add(name)

    def keeps_back(self, name: str) -> bool:
        """Tell whether the pause keeps an accepted event back."""
        with self._lock:
            return any(each[0] == name and each in self.accepted for each in self._kept_back)

    def resume(self, name: str) -> None:
        """Enter that a pause is about to be ended."""
        with self._lock:
            self._paused.discard(name)
            kept = {each for each in self._kept_back if each[0] == name}
            self._kept_back -= kept
            self.seen[Occurrence.PAUSES] += bool(kept & self.accepted.keys())

    def replay(self, name: str, letters: Sequence[Event]) -> None:
        """Enter dead letters that are about to be replayed to *name*."""
        with self._lock:
            for letter in letters:
                sent = self._sent.get(letter["id"], _Sent(content(letter), frozenset()))
                self._sent[letter["id"]] = sent._replace(to=sent.to | {name})
                self.accepted[name, letter["id"]] = 0.0
            self.seen[Occurrence.REPLAYED] += len(letters)

    def promise(self, promises: Iterable[Promise]) -> None:
        """Enter messages that are no events, and have to come to an end."""
        with self._lock:
            self.accepted.update(dict.fromkeys(promises, 0.0))

    def end(self, promises: Iterable[Promise]) -> None:
        """Enter the ends of such messages."""
        with self._lock:
            self._dead.update(promises)

    def excuse(self, since: float) -> None:
        """Allow the loss of what was accepted from *since* on: storage may not have saved it."""
        with self._lock:
            self._unsaved |= {each for each, at in self.accepted.items() if at >= since}

    def cut_off(self) -> None:
        """Enter that endpoints are out of reach for a time: attempts count that they never see."""
        with self._lock:
            self._is_cut_off = True

    @property
    def open(self) -> set[Promise]:
        """What was accepted and has not come to its end."""
        with self._lock:
            return self.accepted.keys() - self._delivered.keys() - self._dead.keys()

    @property
    def entries(self) -> int:
        """The number of all entries, which grows as long as something happens."""
        with self._lock:
            return len(self.accepted) + self._delivered.total() + self._dead.total()

    def row(self, scenario: str, *, runs: int, bound: int, is_queue_empty: bool) -> LedgerSums:
        """
        Close the run: what is open is lost if no queue has a message any more.

        *bound*: so many deliveries may have come again.
        """
        left = self.open
        ends = self._delivered + self._dead
        unsaved = len(left & self._unsaved) if is_queue_empty else 0
        repeated = sum(ends[each] - 1 for each in self.accepted if each in ends)
        return LedgerSums(
            scenario=scenario,
            runs=runs,
            accepted=len(self.accepted),
            delivered=len(self.accepted.keys() & self._delivered.keys()),
            dead=len(self.accepted.keys() & self._dead.keys() - self._delivered.keys()),
            unsaved=unsaved,
            repeated=repeated,
            bound=bound,
            waiting=0 if is_queue_empty else len(left),
            lost=len(left) - unsaved if is_queue_empty else 0,
            **self._faults,
            beyond=max(0, repeated - bound),
        )

    def _compare(self, promise: Promise, event: Event) -> None:
        """Judge whether the subscription gets the event at all, and whether as it was published."""
        name, event_id = promise
        sent = self._sent.get(event_id)
        if sent is None or name not in sent.to:
            self._find("strays", promise)
        elif content(event) != sent.content:
            self._find("changed", promise)

    def _find(self, fault: str, *found: object) -> None:
        self._faults[fault] += 1
        if len(self.findings) < _FINDINGS:
            self.findings.append(f"{fault}: {found}")


def events_in(body: bytes) -> list[dict[str, Any]]:
    """Return the events of a request or the records of a blob; decimals are as they are written."""
    parsed = json.loads(body, parse_float=str)
    return parsed if isinstance(parsed, list) else [parsed]


def content(event: Event) -> str:
    """Return the digest of an event without the members that Event Grid adds."""
    return digest(_text(event))


def _text(event: Event) -> str:
    return json.dumps({k: v for k, v in event.items() if k not in _ADDED}, sort_keys=True)


def digest(body: str) -> str:
    """Return the SHA-256 of a text, by which the ledger compares it."""
    return hashlib.sha256(body.encode()).hexdigest()
