"""Writes replay jobs as documents: for their rows, and for operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from shared.arm.stored_types import checked
from shared.clock import optional_timestamp
from shared.deadletter.selection import Selection
from shared.delivery.messages.run_length import positions_of, spans_of
from shared.engine.replaying.job import (
    BatchUnderWay,
    JobState,
    Position,
    Progress,
    ReplayFault,
    ReplayJob,
    ReplaySource,
)
from shared.subscriptions.subscription import SubscriptionKey

MAX_RECORDS = 1_000_000  # of a blob
_TIMES = ("started_at", "updated_at", "ended_at", "away_since")


def to_document(job: ReplayJob) -> dict[str, Any]:
    """Return the members of a job's row."""
    batch, selection = job.under_way, job.selection
    members = asdict(job)
    if not job.unproven:
        del members["unproven"]  # An instance of an older version can read the row.
    chosen = asdict(selection)
    if selection.event is None:
        del chosen["event"]  # likewise
    return members | {
        "sources": [list(each) for each in job.sources],
        "faults": [list(each) for each in job.faults],
        "position": list(job.position),
        "to": job.to and list(job.to),
        "under_way": batch and [batch.number, batch.path, spans_of(batch.records)],
        "selection": {
            **chosen,
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
    members = dict(document) | {
        "state": JobState(document["state"]),
        "sources": tuple(ReplaySource(*each) for each in document["sources"]),
        "faults": tuple(ReplayFault(*each) for each in document["faults"]),
        "position": Position(*document["position"]),
        "progress": Progress(**document["progress"]),
        "to": SubscriptionKey(*to) if to else None,
        "under_way": _batch(*batch) if batch else None,
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


def shown(job: ReplayJob, failed_again: int | None = None) -> dict[str, Any]:
    """Return a job as the API shows it; *failed_again* ``None``: that was not read."""
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
        "faults": [each._asdict() for each in job.faults],
        "moreFaults": job.more_faults,
    }


def _batch(number: int, path: str, spans: list[int]) -> BatchUnderWay:
    return BatchUnderWay(number, path, tuple(positions_of(spans, MAX_RECORDS)))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
