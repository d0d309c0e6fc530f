"""Prints the recorded attempts of an event in order, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.clock import timestamp
from shared.delivery.attempt_record import AttemptRecord

_HEADER = (
    f"{'when':>12}  {'UTC':<19}  {'#':>3}  {'answer':<24}  {'took':>8}  {'next':>12}  because of"
)


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


def table(timeline: EventTimeline, now: datetime) -> str:
    """Return a timeline as text: a line per attempt, with times since publish and in UTC."""
    first = timeline.records[0]
    name = "(gone)" if timeline.event_id is None else timeline.event_id
    published = f"{_clock(first.published_at)}, {span(now - first.published_at)} ago"
    title = f"{_printable(name)}  published {published}  (aeg-output-event-id {first.system_id})"
    lines = [title, _HEADER]
    for each in timeline.records:
        if each.outcome is None:
            continue
        outcome = each.outcome
        answer = f"{outcome.status or '-'} {outcome.outcome}"
        next_in = span(each.next_at - first.published_at) if each.next_at else "-"
        detail = f" ({_printable(outcome.detail)})" if outcome.detail else ""
        lines.append(
            f"{span(each.at - first.published_at):>12}  {_clock(each.at)}  {each.number:>3}  "
            f"{answer:<24}  {outcome.seconds:>6.2f} s  {next_in:>12}  {each.why}{detail}".rstrip()
        )
    return "\n".join([*lines, _last_line(timeline, now)])


def _last_line(timeline: EventTimeline, now: datetime) -> str:
    first, last = timeline.records[0], timeline.records[-1]
    if end := timeline.end:
        at = _ended_at(end)
        reason = f": {end.reason} ({end.why})" if end.reason else ""
        text = f"{end.state}{reason}"
        if due := end.blob_due_at:
            text = f"given up{reason}; its blob {'is' if due > now else 'was'} due at {_clock(due)}"
        return f"{span(at - first.published_at):>12}  {_clock(at)}  {text}"
    if last.next_at and last.next_at > now:
        return f"{'':>12}  waiting: the next attempt is due in {span(last.next_at - now)}"
    return f"{'':>12}  no failure recorded since: the event was delivered or is held"


def _ended_at(end: AttemptRecord) -> datetime:
    return end.at + timedelta(seconds=end.outcome.seconds if end.outcome else 0)


def _timestamp(moment: datetime | None) -> str | None:
    return timestamp(moment) if moment else None


def _printable(text: str) -> str:
    """Return *text* from a publisher or an endpoint without terminal control characters."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def span(time: timedelta) -> str:
    """Format a duration as 1:46:40.2, to a tenth of a second."""
    tenths = round(time / timedelta(seconds=0.1))
    whole, tenth = divmod(max(tenths, 0), 10)
    text = str(timedelta(seconds=whole))
    return f"{text}.{tenth}" if tenth else text
