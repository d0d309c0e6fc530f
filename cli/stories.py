"""The attempts of an event as one story, for people and for programs."""

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
class Story:
    """The records of one event on its way to one subscription, in order; never empty."""

    records: Sequence[AttemptRecord]

    @property
    def event_id(self) -> str | None:
        return next((each.event_id for each in self.records if each.event_id), None)

    @property
    def end(self) -> AttemptRecord | None:
        return self.records[-1] if self.records[-1].state else None


def latest(days: Iterable[Sequence[AttemptRecord]], most: int) -> list[Story]:
    """Return the stories of the *most* events that were published last, the first of them first."""
    stories: list[Story] = []
    for day in days:  # the last one first: nothing is read that is not shown
        by_event: dict[str, list[AttemptRecord]] = {}
        for record in day:
            by_event.setdefault(record.system_id, []).append(record)
        stories += [Story(records) for records in by_event.values()]
        if len(stories) >= most:
            break
    return sorted(stories, key=lambda story: story.records[0].published_at)[-most:]


def document(story: Story) -> dict[str, Any]:
    """Return a story for programs; times are UTC, ``seconds`` how long an attempt took."""
    first, end = story.records[0], story.end
    return {
        "eventId": story.event_id,
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
                "nextAt": timestamp(each.next_at) if each.next_at else None,
                "why": each.why or None,
            }
            for each in story.records
            if each.outcome
        ],
        "end": end
        and {
            "state": end.state,
            "reason": end.reason,
            "why": end.why or None,
            "at": timestamp(_ended_at(end)),
            "blobDueAt": timestamp(end.blob_due_at) if end.blob_due_at else None,
        },
    }


def table(story: Story, now: datetime) -> str:
    """Return a story for people: times since publish, and on the clock."""
    first = story.records[0]
    name = "(gone)" if story.event_id is None else story.event_id
    published = f"{_clock(first.published_at)}, {span(now - first.published_at)} ago"
    title = f"{_plain(name)}  published {published}  (aeg-output-event-id {first.system_id})"
    lines = [title, _HEADER]
    for each in story.records:
        if each.outcome is None:
            continue
        answer = f"{each.outcome.status or '-'} {each.outcome.outcome}"
        next_in = span(each.next_at - first.published_at) if each.next_at else "-"
        why = f"{each.why} ({_plain(each.outcome.detail)})" if each.outcome.detail else each.why
        lines.append(
            f"{span(each.at - first.published_at):>12}  {_clock(each.at)}  {each.number:>3}  "
            f"{answer:<24}  {each.outcome.seconds:>6.2f} s  {next_in:>12}  {why}".rstrip()
        )
    return "\n".join([*lines, _last_line(story, now)])


def _last_line(story: Story, now: datetime) -> str:
    first, last = story.records[0], story.records[-1]
    if end := story.end:
        at = _ended_at(end)
        reason = f": {end.reason} ({end.why})" if end.reason else ""
        told = f"{end.state}{reason}"
        if due := end.blob_due_at:
            told = f"given up{reason}; its blob {'is' if due > now else 'was'} due at {_clock(due)}"
        return f"{span(at - first.published_at):>12}  {_clock(at)}  {told}"
    if last.next_at and last.next_at > now:
        return f"{'':>12}  waits: the next attempt is due in {span(last.next_at - now)}"
    return f"{'':>12}  no failure is recorded since: it was delivered then, or is held"


def _ended_at(end: AttemptRecord) -> datetime:
    return end.at + timedelta(seconds=end.outcome.seconds if end.outcome else 0)


def _plain(text: str) -> str:
    """Return what a publisher or an endpoint wrote, without what a terminal would obey."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def span(time: timedelta) -> str:
    """Write a time as 1:46:40.2, to the tenth of a second."""
    tenths = round(time / timedelta(seconds=0.1))
    whole, tenth = divmod(max(tenths, 0), 10)
    text = str(timedelta(seconds=whole))
    return f"{text}.{tenth}" if tenth else text
