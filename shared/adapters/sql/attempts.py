"""Stores attempts, found by subscription and by event; the oldest hours go first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any

from shared.adapters.sql.database import (
    MOST_ROWS,
    Database,
    Row,
    WriteTransaction,
    marks,
    micros,
    moment,
    plain,
)
from shared.adapters.sql.dialects import ATTEMPT
from shared.clip import clip
from shared.clock import Deadline
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.outcome import DeliveryOutcome, EndpointAnswer, Outcome
from shared.delivery.policy import EndReason, EndState
from shared.engine.ports import ALL_ATTEMPTS, AttemptChoice

MOST_BYTES = 2 * 1024**3  # of all records: about two million, with their events
_DAY = timedelta(days=1)
_HOUR = micros(moment(0) + timedelta(hours=1))
_ANY = "surrogatepass"  # an event's text may have lone surrogates
_KEY = 6  # columns, the first ones
_TOGETHER = 64  # rows of a statement
_WRITE = (
    f"INSERT INTO attempts ({ATTEMPT}, event) {{}}"
    " ON CONFLICT (topic, subscription, hour, system_id, number, ends) DO UPDATE SET"
    " event_id = excluded.event_id, made = excluded.made, replay_of = excluded.replay_of,"
    " record = excluded.record, event = excluded.event"
)
_ADD_BYTES = (
    "INSERT INTO attempt_hours (hour, bytes) VALUES (?, ?)"
    " ON CONFLICT (hour) DO UPDATE SET bytes = attempt_hours.bytes + excluded.bytes"
)


class SqlAttempts:
    """AttemptLog and AttemptReader; records take at most *most_bytes*, but for an hour's."""

    def __init__(self, database: Database, most_bytes: int = MOST_BYTES) -> None:
        self._database = database
        self.most_bytes = most_bytes

    def write(self, records: Sequence[AttemptRecord]) -> None:
        rows = [row_of(each) for each in records]
        if rows:
            self._database.write(lambda writing: write_attempts(writing, rows))

    def delete_before(self, day: date, deadline: Deadline) -> int:
        """Delete also the oldest hours of what is beyond the bound of size."""
        limit = micros(datetime(day.year, day.month, day.day, tzinfo=UTC))
        dropped = set()
        for hour in self._too_old(limit):
            while not deadline.has_passed:
                if self._database.write(lambda writing, hour=hour: _delete(writing, hour)):  # type: ignore[misc]
                    dropped.add(moment(hour).date())
                    break
        return len({each for each in dropped if each < day})

    def read(
        self,
        topic: str,
        subscription: str,
        since: datetime,
        chosen: AttemptChoice = ALL_ATTEMPTS,
    ) -> Iterator[Sequence[AttemptRecord]]:
        wanted = "topic = ? AND subscription = ? AND hour >= ?"
        values: list[object] = [*_names(topic, subscription), _hour(since)]
        if chosen.event_id is not None:
            wanted += " AND event_id = ?"
            values.append(plain(clip(chosen.event_id)))
        if chosen.since is not None:
            wanted += " AND made >= ?"
            values.append(micros(chosen.since))
        if chosen.replay_of is not None:
            wanted += " AND replay_of = ?"
            values.append(plain(chosen.replay_of))
        until = 2**62
        while True:
            (last,) = self._rows(
                f"SELECT MAX(hour) FROM attempts WHERE {wanted} AND hour < ?", *values, until
            )[0]
            if last is None:
                return
            day = moment(last).replace(hour=0)
            found = self._rows(
                f"SELECT record, event FROM attempts WHERE {wanted} AND hour >= ? AND hour < ?"
                " ORDER BY hour, system_id, number, ends",
                *(*values, micros(day), micros(day + _DAY)),
            )
            if found:
                yield [_record(*each) for each in found]
            until = micros(day)

    def _rows(self, statement: str, *values: object) -> list[Row]:
        return self._database.read(lambda reading: reading.rows(statement, *values))

    def _too_old(self, limit: int) -> list[int]:
        """Return the hours before *limit*, and the oldest of what is too much, in order."""
        left = self.most_bytes
        old = []
        for hour, size in self._rows("SELECT hour, bytes FROM attempt_hours ORDER BY hour DESC"):
            left -= size
            if hour < limit or left < 0:
                old.append(hour)
        return sorted(old)


def write_attempts(writing: WriteTransaction, rows: Sequence[Row]) -> None:
    """Store rows of attempts, replacing those of the same attempt."""
    distinct = [*{row[:_KEY]: row for row in rows}.values()]
    for start in range(0, len(distinct), _TOGETHER):
        # One statement: after each of many, the thread would wait for the busy loop's.
        some = distinct[start : start + _TOGETHER]
        values = ", ".join([f"({marks(len(some[0]))})"] * len(some))
        writing.send(
            _WRITE.format(writing.dialect.attempts.format(values)), *chain.from_iterable(some)
        )
    if not writing.dialect.has_attempt_hours:
        return
    sizes: Counter[int] = Counter()
    for row in rows:
        sizes[row[2]] += sum(len(each) for each in row if isinstance(each, (str, bytes)))
    writing.run_all(_ADD_BYTES, sizes.items())


def _delete(writing: WriteTransaction, hour: int) -> bool:
    """Delete some records of an hour; tell whether none is left."""
    columns = "topic, subscription, hour, system_id, number, ends"
    deleted = writing.run(
        f"DELETE FROM attempts WHERE ({columns}) IN"
        f" (SELECT {columns} FROM attempts WHERE hour = ? LIMIT ?)",
        *(hour, MOST_ROWS),
    )
    if deleted < MOST_ROWS:
        writing.run("DELETE FROM attempt_hours WHERE hour = ?", hour)
    return deleted < MOST_ROWS


def row_of(record: AttemptRecord) -> Row:
    """Return the row of an attempt, as `write_attempts` takes it."""
    record = record.clipped
    published, at = micros(record.published_at), micros(record.at)
    return (
        *_names(record.topic, record.subscription),
        published // _HOUR * _HOUR,
        plain(record.system_id),
        record.number,
        int(record.outcome is None),
        None if record.event_id is None else plain(record.event_id),
        at,
        None if record.replay_of is None else plain(record.replay_of),
        _compact(_document(record, published, at)),
        None if record.event is None else record.event.encode("utf-8", _ANY),
    )


_compact = json.JSONEncoder(separators=(",", ":")).encode


@lru_cache
def _names(topic: str, subscription: str) -> tuple[str, str]:
    return plain(topic.lower()), plain(subscription.lower())


def day_of(hour: int) -> int:
    """Return the beginning of the day of an hour, both in microseconds since 1970."""
    return hour - hour % (_DAY // timedelta(microseconds=1))


def _hour(at: datetime) -> int:
    return micros(at) // _HOUR * _HOUR


_TIMES = ("published_at", "at", "next_at", "blob_due_at")


def _document(record: AttemptRecord, published: int, at: int) -> dict[str, Any]:
    """Write what is known of an attempt, which began *at*: each of very many."""
    written: dict[str, Any] = {
        "topic": record.topic,
        "subscription": record.subscription,
        "system_id": record.system_id,
        "number": record.number,
        "published_at": published,
        "at": at,
    }
    optional = (
        ("event_id", record.event_id),
        ("event_type", record.event_type),
        ("subject", record.subject),
        ("state", record.state),
        ("reason", record.reason),
        ("why", record.why),
        ("trace_id", record.trace_id),
        ("replay_of", record.replay_of),
        ("next_at", record.next_at and micros(record.next_at)),
        ("blob_due_at", record.blob_due_at and micros(record.blob_due_at)),
    )
    written |= {name: value for name, value in optional if value}
    if outcome := record.outcome:
        written["outcome"] = [outcome.outcome, outcome.status, outcome.seconds, outcome.detail]
        if answer := outcome.answer:
            headers = dict(answer.headers)
            written["answer"] = [answer.of, headers, answer.body, answer.is_truncated]
    return written


def _record(text: str, event: bytes | None) -> AttemptRecord:
    known: dict[str, Any] = {"event_id": None, "outcome": None} | json.loads(text)
    known["event"] = None if event is None else event.decode("utf-8", _ANY)
    for name in _TIMES:
        if name in known:
            known[name] = moment(known[name])
    answer = known.pop("answer", None)
    if known["outcome"]:
        outcome, status, seconds, detail = known["outcome"]
        known["outcome"] = DeliveryOutcome(
            outcome=Outcome(outcome),
            status=status,
            seconds=seconds,
            detail=detail,
            answer=EndpointAnswer(*answer) if answer else None,
        )
    if "state" in known:
        known["state"] = EndState(known["state"])
    if "reason" in known:
        known["reason"] = EndReason(known["reason"])
    return AttemptRecord(**known)
