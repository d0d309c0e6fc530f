"""AttemptLog: by day, on each store."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, Protocol

import pytest
from azure.core.exceptions import HttpResponseError

from pushgrid.testing.memory import START, Seconds
from shared.adapters.azure_storage.attempts import StorageAttempts
from shared.adapters.azure_storage.clients import StorageClients
from shared.clock import Deadline
from shared.delivery.attempt_record import AttemptRecord
from shared.delivery.outcome import EndpointAnswer, Outcome
from shared.delivery.policy import EndReason, EndState
from shared.engine.ports import AttemptChoice, AttemptLog, Store
from shared.errors import StorageUnavailable
from tests.builders import NEVER, TRACE, a_record, an_outcome

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
on_storage = pytest.mark.parametrize("kind", ["azurite", "identity"])
in_tables = pytest.mark.parametrize("kind", ["sqlite", "postgresql", "azurite", "identity"])


class ReadableLog(AttemptLog, Protocol):
    read: Callable[..., Iterator[Sequence[AttemptRecord]]]


@pytest.fixture
def log(stored: Store) -> Any:
    """Give a log without tables."""
    return stored.attempts


def read(log: ReadableLog, **changes: Any) -> list[AttemptRecord]:
    asked = {"topic": "orders", "subscription": "crm", "since": START - 30 * DAY} | changes
    return [record for day in log.read(**asked) for record in day]


EVERY_KIND = [
    a_record(),
    a_record(number=2, outcome=an_outcome(Outcome.SOCKET_ERROR, None)),
    a_record(
        number=3,
        outcome=replace(an_outcome(), detail="ü \U0001f600 'quoted'"),
        next_at=None,
        state=EndState.DEAD_LETTERED,
        reason=EndReason.MAX_ATTEMPTS,
        blob_due_at=START + timedelta(minutes=5, milliseconds=250),
        why="all 3 attempts made",
        trace_id=TRACE.trace_id,
        replay_of="20260209120000-5b0c6a0e",
        event_type="Größe.Changed",
        subject="\0\ufffe",
        event="{}",
    ),
    a_record(
        number=4,
        outcome=replace(an_outcome(), answer=EndpointAnswer("s-1", {}, None)),
    ),
    a_record(
        number=5,
        outcome=replace(
            an_outcome(),
            answer=EndpointAnswer(
                "s-1", {"server": "x"}, "\0\ufffe\ufffd" * 680, is_truncated=True
            ),
        ),
    ),
    a_record(
        number=5,
        event_id=None,
        outcome=None,
        next_at=None,
        state=EndState.DROPPED,
        reason=EndReason.PAYLOAD_MISSING,
    ),
]


def test_a_record_comes_back_as_it_was(log: ReadableLog) -> None:
    """An end that was noticed later follows the last attempt."""
    log.write(list(reversed(EVERY_KIND)))

    assert read(log) == EVERY_KIND


def test_those_of_a_replay_are_read_alone(log: ReadableLog) -> None:
    theirs = a_record(number=2, replay_of="20260209120000-5b0c6a0e")
    log.write([a_record(), theirs])

    assert read(log, chosen=AttemptChoice(replay_of="20260209120000-5b0c6a0e")) == [theirs]


def test_attempts_since_a_time_are_selected_by_when_they_were_made(log: ReadableLog) -> None:
    """Not by when their event was published, hours before."""
    early, late = (a_record(number=number, at=START + number * HOUR) for number in (1, 2))
    log.write([early, late])

    assert read(log, chosen=AttemptChoice(since=late.at)) == [late]
    assert read(log, chosen=AttemptChoice(since=early.at)) == [early, late]
    assert read(log, chosen=AttemptChoice(since=late.at + HOUR)) == []


def test_nothing_is_there_before_the_first_write(log: ReadableLog) -> None:
    assert (read(log), log.delete_before(date(2030, 1, 1), NEVER)) == ([], 0)


def test_the_same_again_is_no_error_and_the_last_word(log: ReadableLog) -> None:
    """Its message came twice: one row, also where both are in one write."""
    again = a_record(why="again")
    log.write([a_record(), a_record()])

    log.write([a_record(), again])

    assert read(log) == [again]


def test_several_subscriptions_hours_and_days_are_kept_apart(log: ReadableLog) -> None:
    records = [
        a_record(system_id=str(uuid.UUID(int=number)), published_at=START - number * 7 * HOUR)
        for number in range(8)
    ]
    others = [a_record(subscription="crm-2"), a_record(topic="orders2"), a_record(topic="order")]

    log.write([*records, *others])

    days = list(log.read("ORDERS", "Crm", START - 40 * HOUR))
    assert [[each.published_at for each in day] for day in days] == [
        [START - 7 * HOUR, START],
        [START - 35 * HOUR, START - 28 * HOUR, START - 21 * HOUR, START - 14 * HOUR],
    ]
    assert [each.published_at for each in read(log, since=START)] == [START]
    assert read(log, topic="orders", subscription="crm-2") == [others[0]]


def test_attempts_sort_by_number(log: ReadableLog) -> None:
    log.write([a_record(number=number) for number in (30, 9, 10, 1)])

    assert [each.number for each in read(log)] == [1, 9, 10, 30]


def test_one_event_can_be_asked_for(log: ReadableLog) -> None:
    odd = "it's /an\\id#? " + "x" * 20
    log.write([a_record(), a_record(system_id=str(uuid.UUID(int=9)), event_id=odd)])

    assert [each.event_id for each in read(log, chosen=AttemptChoice(odd))] == [odd]


@in_tables
def test_names_that_no_key_may_have_are_kept_all_the_same(log: ReadableLog) -> None:
    for number, name in enumerate(["ns/orders", "ns\\orders", "ns_2f_orders", "a#b?c", "ü|%"]):
        record = a_record(topic=name, number=number)
        log.write([record])

        assert read(log, topic=name) == [record]


def test_long_texts_are_clipped_and_the_event_is_found_all_the_same(log: ReadableLog) -> None:
    longest = "e" * 600
    record = a_record(event_id=longest, why=longest, outcome=replace(an_outcome(), detail=longest))

    log.write([record])

    (found,) = read(log, chosen=AttemptChoice(longest))
    clipped = "e" * 511 + "…"
    assert found.outcome
    assert (found.event_id, found.why, found.outcome.detail) == (clipped, clipped, clipped)
    assert read(log, chosen=AttemptChoice(clipped)) == [found]
    assert read(log, chosen=AttemptChoice("e" * 511)) == []


@in_tables
def test_more_than_a_transaction_can_hold_is_written(log: ReadableLog) -> None:
    """A hundred rows and 4 MiB are its limits: here every text is at its longest."""
    longest = "\U0001f600" * 5000  # twelve bytes each, as JSON of ASCII
    records = [
        a_record(
            system_id=str(uuid.UUID(int=number)),
            event_id=longest,
            why=longest,
            outcome=replace(an_outcome(), detail=longest),
        )
        for number in range(250)
    ]

    log.write(records)

    found = read(log, chosen=AttemptChoice(longest))
    assert len(found) == 250
    assert {len(each.event_id or "") for each in found} == {512}


def test_old_days_are_dropped_and_no_others(log: ReadableLog) -> None:
    log.write(
        [
            a_record(system_id=str(uuid.UUID(int=number)), published_at=START - number * DAY)
            for number in range(10)
        ]
    )

    dropped = log.delete_before((START - 7 * DAY).date(), NEVER)

    assert dropped == 2
    assert {START - each.published_at for each in read(log)} == {n * DAY for n in range(8)}
    assert log.delete_before((START - 7 * DAY).date(), NEVER) == 0


@on_storage
def test_a_day_that_cannot_be_dropped_keeps_no_other(
    log: Any, account: StorageClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write([a_record(published_at=START - number * DAY) for number in range(3)])
    oldest = account.table(f"attempts{START - 2 * DAY:%Y%m%d}")

    def refused() -> None:
        raise HttpResponseError("it is being restored")

    with monkeypatch.context() as patched:
        patched.setattr(oldest, "delete_table", refused)
        with pytest.raises(StorageUnavailable):
            log.delete_before(START.date(), NEVER)

    assert sorted(each.published_at for each in read(log)) == [START - 2 * DAY, START]


@on_storage
def test_nothing_is_dropped_after_the_deadline_or_that_is_not_ours(
    log: StorageAttempts,
) -> None:
    log.write([a_record()])
    others = ["attempts2", "attempts2026", "attempts202601012", "attemptsx", "topics"]
    for name in others:
        log._account.table(name).create_table()

    late = log.delete_before(date(2030, 1, 1), Deadline(timedelta(), Seconds()))
    dropped = log.delete_before(date(2030, 1, 1), NEVER)

    left = {table.name for table in log._account._tables().list_tables()}
    assert (late, dropped) == (0, 1)
    assert {log._account._prefix + name for name in others} <= left
