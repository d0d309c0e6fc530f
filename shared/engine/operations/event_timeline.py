"""Arranges recorded attempts by event, and writes them as JSON members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.clock import optional_timestamp, timestamp
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.outcome import DeliveryOutcome, Outcome

EventTimeline = Sequence[AttemptRecord]  # of one event for one subscription, in order; never empty


def latest(days: Iterable[Sequence[AttemptRecord]], limit: int) -> list[EventTimeline]:
    """
    Return the timelines of the *limit* events published last, oldest first.

    *days* are the records by day of publishing, newest day first; no more days are read than
    needed.
    """
    timelines: list[EventTimeline] = []
    for day in days:
        by_event: dict[str, list[AttemptRecord]] = {}
        for record in _with_answers(day):
            by_event.setdefault(record.system_id, []).append(record)
        timelines += by_event.values()
        if len(timelines) >= limit:
            break
    return sorted(timelines, key=lambda each: each[0].published_at)[-limit:]


def document(timeline: EventTimeline, *, with_answers: bool = True) -> dict[str, Any]:
    """Return a timeline as JSON members: times in UTC, durations in seconds."""
    first, last = timeline[0], timeline[-1]
    end = last if last.state else None
    named = next((each for each in timeline if each.event_id), first)
    return {
        "eventId": named.event_id,
        **_about(named, with_answers=with_answers),
        "event": named.event if with_answers else None,
        "systemId": first.system_id,
        "traceId": first.trace_id,
        "replayOf": first.replay_of,
        "publishedAt": timestamp(first.published_at),
        "attempts": [
            _attempt(each, each.outcome, with_answer=with_answers)
            for each in timeline
            if each.outcome
        ],
        "end": end
        and {
            "state": end.state,
            "reason": end.reason,
            "why": end.why or None,
            "at": timestamp(_ended_at(end)),
            "blobDueAt": optional_timestamp(end.blob_due_at),
        },
    }


def failure_documents(
    records: Iterable[AttemptRecord], limit: int, *, with_answers: bool = True
) -> list[dict[str, Any]]:
    """Return the *limit* latest failed attempts as JSON members, the latest first."""
    failed = [
        (each, each.outcome)
        for each in _with_answers([*records])
        if each.outcome and each.outcome.outcome is not Outcome.DELIVERED
    ]
    failed.sort(key=lambda pair: pair[0].at, reverse=True)
    return [
        {
            "eventId": each.event_id,
            **_about(each, with_answers=with_answers),
            "systemId": each.system_id,
            **_attempt(each, outcome, with_answer=with_answers),
            "state": each.state,
            "reason": each.reason,
        }
        for each, outcome in failed[:limit]
    ]


def _with_answers(records: Sequence[AttemptRecord]) -> Iterator[AttemptRecord]:
    """Give each event the answer to its request, if it is kept with another of *records*."""
    known = {
        (each.system_id, each.at): each.outcome.answer
        for each in records
        if each.outcome and each.outcome.answer and each.outcome.answer.body is not None
    }
    for each in records:
        outcome = each.outcome
        if outcome and outcome.answer and (found := known.get((outcome.answer.of, each.at))):
            yield replace(each, outcome=replace(outcome, answer=found))
        else:
            yield each


def _about(record: AttemptRecord, *, with_answers: bool) -> dict[str, Any]:
    """Return the event's type, and its subject to those who may see payloads."""
    return {"eventType": record.event_type, "subject": record.subject if with_answers else None}


def _attempt(
    record: AttemptRecord, outcome: DeliveryOutcome, *, with_answer: bool
) -> dict[str, Any]:
    answer = outcome.answer if with_answer else None
    return {
        "number": record.number,
        "at": timestamp(record.at),
        "status": outcome.status,
        "outcome": outcome.outcome,
        "cause": outcome.cause,
        "detail": outcome.detail or None,
        "answer": answer
        and {
            "headers": dict(answer.headers),
            "body": answer.body,
            "isTruncated": answer.is_truncated,
            "systemId": answer.of,
        },
        "seconds": outcome.seconds,
        "nextAt": optional_timestamp(record.next_at),
        "why": record.why or None,
    }


def _ended_at(end: AttemptRecord) -> datetime:
    return end.at + timedelta(seconds=end.outcome.seconds if end.outcome else 0)
