"""The rows of replay jobs: those of earlier versions are read, and the form is kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from shared.deadletter.selection import Selection
from shared.engine.replaying.job import (
    BatchUnderWay,
    Position,
    Progress,
    ReplayFault,
    ReplayJob,
    ReplaySource,
    to_document,
    to_job,
)

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
# As versions until 2026-11-23 wrote it, without members that are newer.
STORED: dict[str, Any] = {
    "id": "j-1",
    "by": "the admin key",
    "started_at": "2026-11-23T12:00:00.0000000Z",
    "sources": [["orders", "crm", "dead", "", "CRM"]],
    "selection": {
        "prefix": "CRM/",
        "since": "2026-11-23T12:00:00.0000000Z",
        "until": None,
        "reason": None,
    },
    "to": None,
    "rate": 100,
    "is_dry_run": False,
    "again": False,
    "state": "Running",
    "number": 7,
    "batches": 3,
    "position": [0, "CRM/2026/11/23/9/a.json", 2],
    "under_way": [3, "CRM/2026/11/23/9/a.json", [2, 3]],
    "progress": {"blobs": 1, "events": 2, "put": 2, "repeated": 0, "skipped": {"Unreadable": 1}},
    "faults": [["a.json", "no list"]],
    "more_faults": 0,
    "updated_at": "2026-11-23T12:00:00.0000000Z",
    "ended_at": None,
    "away_since": None,
    "why": "",
}
JOB = ReplayJob(
    id="j-1",
    by="the admin key",
    started_at=AT,
    sources=(ReplaySource("orders", "crm", "dead", "", "CRM"),),
    selection=Selection(prefix="CRM/", since=AT),
    to=None,
    rate=100,
    is_dry_run=False,
    again=False,
    step=7,
    latest_batch=3,
    position=Position(0, "CRM/2026/11/23/9/a.json", 2),
    under_way=BatchUnderWay("CRM/2026/11/23/9/a.json", (2, 3, 4)),
    progress=Progress(blobs=1, events=2, put=2, skipped={"Unreadable": 1}),
    faults=(ReplayFault("a.json", "no list"),),
    updated_at=AT,
)


def test_a_job_of_an_earlier_version_is_read():
    assert to_job(STORED) == JOB


def test_a_job_is_stored_with_the_names_that_an_earlier_version_reads():
    newer = {"unproven": False, "selection": STORED["selection"] | {"event": None}}

    assert to_document(JOB) == STORED | newer
    assert to_document(replace(JOB, put_once=("a",))).keys() == {*STORED, "unproven", "put_once"}
    assert to_job(to_document(replace(JOB, put_once=("a",)))).put_once == ("a",)
