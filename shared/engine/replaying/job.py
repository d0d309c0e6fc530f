"""
Defines a replay of dead letters as a job: what is asked, how far it is, what it has found.

Writes jobs as documents: for their rows, and for operators.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from shared.arm.stored_types import checked
from shared.clip import clip, clip_ascii
from shared.clock import optional_timestamp
from shared.deadletter.reader import MAX_RECORDS
from shared.deadletter.selection import Selection
from shared.delivery.messages.run_length import positions_of, spans_of
from shared.subscriptions.subscription import DeadLetterDestination, SubscriptionKey

MAX_FAULTS = 50  # that a job names
MAX_ASCII = 3000  # characters of each text of a fault in a row, where an emoji takes 12
MAX_PUT_ONCE = 1000  # events that a job remembers: the latest, of up to 200 subscriptions
_TIMES = ("started_at", "updated_at", "ended_at", "away_since")
_STORED_AS = {"step": "number", "latest_batch": "batches"}  # members that rows name otherwise


class JobState(StrEnum):
    """The state of a job; only one that is `RUNNING` has a next step."""

    RUNNING = "Running"
    DONE = "Done"
    CANCELLED = "Cancelled"
    FAILED = "Failed"


class Skipped(StrEnum):
    """The reason for which a dead letter is not replayed."""

    EVENT = "AnotherEvent"
    REASON = "AnotherReason"
    TOPIC = "AnotherTopic"
    UNPROVEN = "UnprovenTopic"
    REPLAYED = "ReplayedBefore"
    UNREADABLE = "Unreadable"
    NOT_REPLAYABLE = "NotReplayable"


class ReplaySource(NamedTuple):
    """The blobs of one subscription, or all of a container that an operator has given."""

    topic: str
    subscription: str  # empty: a given container
    container: str
    account: str
    folder: str  # that the blobs are below

    @property
    def key(self) -> SubscriptionKey:
        return SubscriptionKey(self.topic, self.subscription)

    @property
    def title(self) -> str:
        return "/".join(self.key) if self.subscription else f"container {self.container}"

    @property
    def destination(self) -> DeadLetterDestination:
        return DeadLetterDestination(container=self.container, account=self.account)


class Position(NamedTuple):
    """The next record: numbers of source and record, and the blob's path."""

    source: int = 0
    path: str = ""
    record: int = 0

    def record_in(self, path: str) -> int:
        return self.record if path == self.path else 0


START = Position()
FINISHED = -1  # instead of a record's number: the blob is done


class BatchUnderWay(NamedTuple):
    """The batch that is stored before it is put: its blob and records; it is the latest."""

    path: str
    records: tuple[int, ...]


class ReplayFault(NamedTuple):
    """A blob, record or source that is left out, and why."""

    where: str
    why: str

    def clipped(self) -> ReplayFault:
        """Return the fault in a size of which a job's row has room for `MAX_FAULTS`."""
        where, why = clip_ascii(self.where, MAX_ASCII), clip_ascii(clip(self.why), MAX_ASCII)
        return ReplayFault(where, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Counts: blobs read, events found in them, put as deliveries, put twice, and left out."""

    blobs: int = 0
    events: int = 0
    put: int = 0
    repeated: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)

    def plus(self, other: Progress) -> Progress:
        return Progress(
            blobs=self.blobs + other.blobs,
            events=self.events + other.events,
            put=self.put + other.put,
            repeated=self.repeated + other.repeated,
            skipped=dict(Counter(self.skipped) + Counter(other.skipped)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob:
    """
    A request to send dead letters again, and how far it is.

    Its row has these names, but for `_STORED_AS`: who changes one changes the stored form.
    """

    id: str
    by: str
    started_at: datetime
    sources: tuple[ReplaySource, ...]
    selection: Selection
    to: SubscriptionKey | None  # ``None``: each event goes to the subscription of its source
    rate: int  # events a second
    is_dry_run: bool
    again: bool
    unproven: bool = False  # also events of which nothing proves the topic
    state: JobState = JobState.RUNNING
    step: int = 1  # number of the latest one
    latest_batch: int = 0  # its number
    position: Position = START
    under_way: BatchUnderWay | None = None
    progress: Progress = Progress()
    # Hashes of what was put, if one event is chosen: it has a dead letter for each time it failed.
    put_once: tuple[str, ...] = ()
    faults: tuple[ReplayFault, ...] = ()
    more_faults: int = 0
    updated_at: datetime | None = None
    ended_at: datetime | None = None
    away_since: datetime | None = None  # when a dead-letter account first failed to answer
    why: str = ""  # a source was given up

    @property
    def source(self) -> ReplaySource | None:
        """Where it looks now; ``None`` after the last one."""
        number = self.position.source
        return self.sources[number] if number < len(self.sources) else None

    def with_faults(self, *faults: ReplayFault) -> ReplayJob:
        room = max(MAX_FAULTS - len(self.faults), 0)
        more = self.more_faults + len(faults[room:])
        named = tuple(each.clipped() for each in faults[:room])
        return replace(self, faults=self.faults + named, more_faults=more)

    def has_under_way(self, path: str, records: tuple[int, ...]) -> bool:
        """Tell whether a batch is the one under way: a step that was killed may have put it."""
        return self.under_way == (path, records)

    def with_batch(self, path: str, records: tuple[int, ...]) -> ReplayJob:
        """Return the job with a batch under way; one that already was is counted as repeated."""
        if self.has_under_way(path, records):
            return replace(self, progress=self.progress.plus(Progress(repeated=len(records))))
        return replace(
            self, under_way=BatchUnderWay(path, records), latest_batch=self.latest_batch + 1
        )

    def was_put(self, to: SubscriptionKey, text: str) -> bool:
        """Tell whether a chosen event was put for a subscription, among the latest 1000."""
        return _hash(to, text) in self.put_once

    def with_put(self, to: SubscriptionKey, texts: Iterable[str]) -> ReplayJob:
        """Return the job that remembers the events it has put, if it puts equal ones once."""
        if self.selection.event is None:
            return self
        known = self.put_once + tuple(_hash(to, each) for each in texts)
        return replace(self, put_once=known[-MAX_PUT_ONCE:])

    def at_next_source(self) -> ReplayJob:
        return replace(self, position=Position(self.position.source + 1), away_since=None)

    def ended(self, state: JobState, at: datetime) -> ReplayJob:
        return replace(self, state=state, ended_at=at, updated_at=at)


def to_document(job: ReplayJob) -> dict[str, Any]:
    """Return the members of a job's row; an earlier version reads it unless it has `put_once`."""
    batch, selection = job.under_way, job.selection
    members = {_STORED_AS.get(name, name): value for name, value in asdict(job).items()}
    if not job.put_once:
        del members["put_once"]
    return members | {
        "sources": [list(each) for each in job.sources],
        "faults": [list(each) for each in job.faults],
        "position": list(job.position),
        "to": job.to and list(job.to),
        "under_way": batch and [job.latest_batch, batch.path, spans_of(batch.records)],
        "selection": {
            **asdict(selection),
            "since": optional_timestamp(selection.since),
            "until": optional_timestamp(selection.until),
        },
        **{name: optional_timestamp(getattr(job, name)) for name in _TIMES},
    }


def to_job(document: Mapping[str, Any]) -> ReplayJob:
    """
    Return the job of a row.

    Raises:
        ValueError, TypeError, LookupError: the row is damaged.
    """
    batch, to, selection = document["under_way"], document["to"], document["selection"]
    named = {stored: name for name, stored in _STORED_AS.items()}
    members = {named.get(stored, stored): value for stored, value in document.items()} | {
        "state": JobState(document["state"]),
        "sources": tuple(ReplaySource(*each) for each in document["sources"]),
        "faults": tuple(ReplayFault(*each).clipped() for each in document["faults"]),
        "position": Position(*document["position"]),
        "progress": Progress(**document["progress"]),
        "to": SubscriptionKey(*to) if to else None,
        "under_way": _batch(*batch) if batch else None,
        "put_once": tuple(document.get("put_once", ())),
        "selection": Selection(
            **{
                **selection,
                "since": _moment(selection["since"]),
                "until": _moment(selection["until"]),
            }
        ),
        **{name: _moment(document[name]) for name in _TIMES},
    }
    return checked(ReplayJob(**members))


def shown(job: ReplayJob, *, is_reader: bool, failed_again: int | None = None) -> dict[str, Any]:
    """
    Return a job as the API shows it; *failed_again* ``None``: that was not read.

    Faults may quote dead letters, so a reader sees only where they are.
    """
    selection, progress = job.selection, job.progress
    return {
        "id": job.id,
        "state": job.state,
        "why": job.why or None,
        "by": job.by,
        "startedAt": optional_timestamp(job.started_at),
        "updatedAt": optional_timestamp(job.updated_at),
        "endedAt": optional_timestamp(job.ended_at),
        "dryRun": job.is_dry_run,
        "again": job.again,
        "unproven": job.unproven,
        "rate": job.rate,
        "sources": [each._asdict() for each in job.sources],
        "to": job.to and job.to._asdict(),
        "prefix": selection.prefix,
        "since": optional_timestamp(selection.since),
        "until": optional_timestamp(selection.until),
        "reason": selection.reason,
        "event": selection.event,
        "blobs": progress.blobs,
        "events": progress.events,
        "replayed": progress.put,
        "repeated": progress.repeated,
        "failedAgain": failed_again,
        "skipped": progress.skipped,
        "faults": [
            {"where": each.where, "why": None if is_reader else each.why} for each in job.faults
        ],
        "moreFaults": job.more_faults,
    }


def _batch(_: int, path: str, spans: list[int]) -> BatchUnderWay:
    return BatchUnderWay(path, tuple(positions_of(spans, MAX_RECORDS)))


def _hash(to: SubscriptionKey, text: str) -> str:
    return hashlib.sha256("\n".join([*to.folded, text]).encode()).hexdigest()[:20]


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
