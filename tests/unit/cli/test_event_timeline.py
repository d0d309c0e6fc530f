"""The timeline of an event, for people and for programs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from cli.timeline import table
from pushgrid.testing.memory import START
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.outcome import DeliveryOutcome, EndpointAnswer, Outcome
from shared.delivery.policy import EndReason, EndState
from shared.engine.operations.event_timeline import (
    document,
    failure_documents,
    latest,
)
from tests.builders import TRACE, a_record, an_outcome

SECOND = timedelta(seconds=1)
ID = str(uuid.UUID(int=1))
REFUSED = DeliveryOutcome(
    outcome=Outcome.SOCKET_ERROR, status=None, seconds=0.01, detail="refused\x1b[31m"
)
LAST = a_record(
    number=2,
    at=START + 30.2 * SECOND,
    outcome=REFUSED,
    next_at=None,
    state=EndState.DEAD_LETTERED,
    reason=EndReason.MAX_ATTEMPTS,
    blob_due_at=START + 330.2 * SECOND,
    why="all 2 attempts made",
)
EXPIRED = a_record(
    number=1,
    at=START + 600 * SECOND,
    outcome=None,
    next_at=None,
    state=EndState.DROPPED,
    reason=EndReason.TIME_TO_LIVE,
    why="older than 5 min",
)


def test_people_read_a_line_per_attempt_and_one_for_the_end() -> None:
    shown = table(document([a_record(), LAST]), START + 3600 * SECOND)

    assert shown.splitlines() == [
        f"e-0  published 2026-02-09 12:00:00, 1:00:00 ago  (aeg-output-event-id {ID})",
        (
            "        when  UTC                    #  answer                        took"
            "          next  because of"
        ),
        (
            "   0:00:00.2  2026-02-09 12:00:00    1  503 Busy                    0.10 s"
            "       0:00:30  minimum for 503: 30 s"
        ),
        (
            "   0:00:30.2  2026-02-09 12:00:30    2  - SocketError               0.01 s"
            "             -  all 2 attempts made (refused\ufffd[31m)"
        ),
        (
            "   0:00:30.2  2026-02-09 12:00:30  given up: MaxDeliveryAttemptsExceeded"
            " (all 2 attempts made); its blob was due at 2026-02-09 12:05:30"
        ),
    ]


@pytest.mark.parametrize("may_see", [True, False])
def test_type_subject_and_event_stand_beside_the_id(*, may_see: bool) -> None:
    """Readers see no more of an event than its type."""
    record = a_record(event_type="Placed", subject="/o/7\x1b", event='{"id": "e-0"}')
    found = document([record], with_answers=may_see)
    lines = table(found, START + 3600 * SECOND).splitlines()
    about = "Placed /o/7\ufffd" if may_see else "Placed"

    assert lines[0].startswith(f"e-0  {about}  published ")
    assert lines[1].strip().startswith('event  {"id": "e-0"}' if may_see else "when")
    [failed] = failure_documents([record], 1, with_answers=may_see)
    assert failed["eventType"] == "Placed"
    assert failed["subject"] == ("/o/7\x1b" if may_see else None)


def test_the_answer_stands_below_its_attempt() -> None:
    """Of a batch it is kept with the first event, and shown with each that was read with it."""
    whole = EndpointAnswer("s-0", {"retry-after": "9"}, "locked\x1b[31m\nby 7", is_truncated=True)
    reference = EndpointAnswer("s-0", {}, None)
    first, other, alone = (
        a_record(system_id=system_id, at=at, outcome=replace(an_outcome(), answer=answer))
        for system_id, at, answer in (
            ("s-0", START, whole),
            ("s-1", START, reference),
            ("s-2", START + SECOND, reference),
        )
    )

    shown = [
        table(document(each), START).splitlines()[3:-1]
        for each in latest([[first, other, alone]], 9)
    ]

    answer = ["retry-after: 9", "locked\ufffd[31m", "by 7", "… (only the beginning is kept)"]
    assert [[line.strip(" |") for line in lines] for lines in shown] == [
        answer,
        answer,
        ["(answered with the event of aeg-output-event-id s-0)"],
    ]


def test_the_trace_is_shown_if_there_is_one() -> None:
    title, *_ = table(document([a_record(trace_id=TRACE.trace_id)]), START).splitlines()

    assert title.endswith(f"(aeg-output-event-id {ID}, trace {TRACE.trace_id})")


DAY, WHY = "2026-02-09", "TimeToLiveExceeded (older than 5 min)"
DELIVERED = a_record(
    outcome=an_outcome(Outcome.DELIVERED, 200), next_at=None, state=EndState.DELIVERED, why=""
)


@pytest.mark.parametrize(
    ("last", "seconds", "shown"),
    [
        (a_record(), 10, "waiting: the next attempt is due in 0:00:20"),
        (a_record(), 31, "no failure recorded since: the event was delivered or is held"),
        (EXPIRED, 999, f"0:10:00  {DAY} 12:10:00  dropped: {WHY}"),
        (
            replace(EXPIRED, at=START + 60 * SECOND, blob_due_at=START + 300 * SECOND),
            60,
            f"0:01:00  {DAY} 12:01:00  given up: {WHY}; its blob is due at {DAY} 12:05:00",
        ),
        (
            replace(EXPIRED, blob_due_at=START + 599 * SECOND),
            600,
            f"0:10:00  {DAY} 12:10:00  given up: {WHY}; its blob was due at {DAY} 12:09:59",
        ),
        (DELIVERED, 0, f"0:00:00.4  {DAY} 12:00:00  delivered"),
    ],
    ids=["waiting", "silence", "expired", "to be written", "too old when it was due", "delivered"],
)
def test_the_last_line_says_what_became_of_it(
    last: AttemptRecord, seconds: int, shown: str
) -> None:
    lines = table(document([a_record(), last]), START + seconds * SECOND).splitlines()

    assert lines[-1].strip() == shown


def test_programs_get_the_same() -> None:
    shown = document([a_record(), LAST])

    assert shown["eventId"] == "e-0"
    assert shown["systemId"] == ID
    assert shown["publishedAt"] == "2026-02-09T12:00:00.0000000Z"
    assert shown["attempts"][0] == {
        "number": 1,
        "at": "2026-02-09T12:00:00.2500000Z",
        "status": 503,
        "outcome": "Busy",
        "cause": "503 Busy",
        "detail": None,
        "answer": None,
        "seconds": 0.1,
        "nextAt": "2026-02-09T12:00:30.0000000Z",
        "why": "minimum for 503: 30 s",
    }
    assert [each["nextAt"] for each in shown["attempts"]][1:] == [None]
    assert shown["end"] == {
        "state": "deadLettered",
        "reason": "MaxDeliveryAttemptsExceeded",
        "why": "all 2 attempts made",
        "at": "2026-02-09T12:00:30.2100000Z",
        "blobDueAt": "2026-02-09T12:05:30.2000000Z",
    }
    assert document([a_record()])["end"] is None
    assert len(document([a_record(), EXPIRED])["attempts"]) == 1


def test_the_latest_events_are_shown_and_no_more_days_are_read() -> None:
    read: list[int] = []

    def days() -> Iterator[list[AttemptRecord]]:
        for day in range(9):
            read.append(day)
            at = START - timedelta(days=day)
            yield [
                a_record(system_id=f"{day}-{event}", published_at=at + event * SECOND, number=n)
                for event in range(3)
                for n in (1, 2)
            ]

    timelines = latest(days(), 4)

    assert [each[0].system_id for each in timelines] == ["1-2", "0-0", "0-1", "0-2"]
    assert [len(each) for each in timelines] == [2, 2, 2, 2]
    assert read == [0, 1]
