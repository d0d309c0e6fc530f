"""Arranges recorded attempts by event, and writes them as JSON members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.clock import timestamp
from shared.delivery.attempt_record import AttemptRecord


@dataclass(frozen=True, slots=True)
class EventTimeline:
    """The records of one event for one subscription, in order; never empty."""

    records: Sequence[AttemptRecord]

    @property
    def event_id(self) -> str | None:
        return next((each.event_id for each in self.records if each.event_id), None)

    @property
    def end(self) -> AttemptRecord | None:
        """The last record, if the event's delivery ended with it."""
        return self.records[-1] if self.records[-1].state else None


def latest(days: Iterable[Sequence[AttemptRecord]], limit: int) -> list[EventTimeline]:
    """
    Return the timelines of the *limit* events published last, oldest first.

    *days* are the records by day of publishing, newest day first; no more days are read than
    needed.
    """
    timelines: list[EventTimeline] = []
    for day in days:
        by_event: dict[str, list[AttemptRecord]] = {}
        for record in day:
            by_event.setdefault(record.system_id, []).append(record)
        timelines += [EventTimeline(records) for records in by_event.values()]
        if len(timelines) >= limit:
            break
    return sorted(timelines, key=lambda each: each.records[0].published_at)[-limit:]


def document(timeline: EventTimeline) -> dict[str, Any]:
    """Return a timeline as JSON members: times in UTC, durations in seconds."""
    first, end = timeline.records[0], timeline.end
    return {
        "eventId": timeline.event_id,
        "systemId": first.system_id,
        "traceId": first.trace_id,
        "publishedAt": timestamp(first.published_at),
        "attempts": [
            {
                "number": each.number,
                "at": timestamp(each.at),
                "status": each.outcome.status,
                "outcome": each.outcome.outcome,
                "detail": each.outcome.detail or None,
                "seconds": each.outcome.seconds,
                "nextAt": _timestamp(each.next_at),
                "why": each.why or None,
            }
            for each in timeline.records
            if each.outcome
        ],
        "end": end
        and {
            "state": end.state,
            "reason": end.reason,
            "why": end.why or None,
            "at": timestamp(_ended_at(end)),
            "blobDueAt": _timestamp(end.blob_due_at),
        },
    }


def _ended_at(end: AttemptRecord) -> datetime:
    return end.at + timedelta(seconds=end.outcome.seconds if end.outcome else 0)


def _timestamp(moment: datetime | None) -> str | None:
    return timestamp(moment) if moment else None
